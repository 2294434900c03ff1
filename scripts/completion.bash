# bash completion for the programs of kvpool: options as PROG --help has them
# at the time, words of kvdiag and kvbench, what an option takes that takes few
# words, host names of no kind, else files.

# bash parts a word at "=", which is one by itself.
_kvpool_values()
{
	local i=$COMP_CWORD

	[[ ${COMP_WORDS[i]} == = ]] || ((i--))
	if [[ ${COMP_WORDS[i]} == = ]]; then
		((i--))
	elif [[ ${COMP_WORDS[i]} != --protocol && ${COMP_WORDS[i]} != --mode ]]; then
		return
	fi
	case ${COMP_WORDS[i]} in
	--mode) echo embedded standalone-store ;;
	--protocol)
		[[ ${COMP_WORDS[0]##*/} == mooncake_* ]] || echo auto
		echo tcp rdma
		;;
	--hugepages | --enable[-_]*) echo true false ;;
	esac
}

_kvpool()
{
	local prog=$1 cur=${2#=} word words=

	COMPREPLY=()
	words=$(_kvpool_values)
	if [[ -n $words ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
		return
	fi
	if [[ $cur == -* ]]; then
		words=$("$prog" --help 2>/dev/null |
			sed -n 's/^ \{1,8\}\(-.*\)/\1/p' | sed 's/  .*//' |
			grep -oE -e '--[a-z0-9][a-z0-9_-]*')
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
		return
	fi
	case ${prog##*/} in
	kvdiag) words='nodes pools keys key stats links devices config doctor watch' ;;
	kvbench) words='local store exist link bars report' ;;
	esac
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		[[ " $words " != *" $word "* ]] || words=
		[[ ${prog##*/}/$word != kvdiag/stats ]] ||
			words='master local client'
	done
	if [[ -n $words ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	fi
}

complete -o default -F _kvpool kvmaster kvclient kvput kvget kvrm kvdiag \
	kvbench mooncake_master mooncake_client
