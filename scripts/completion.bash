# bash completion for the programs of kvpool: options as PROG --help has them
# at the time, words of kvdiag and kvbench, host names of no kind, else files.

_kvpool()
{
	local prog=$1 cur=$2 word words=

	COMPREPLY=()
	if [[ $cur == -* ]]; then
		words=$("$prog" --help 2>/dev/null |
			sed -n 's/^ \{1,8\}\(-.*\)/\1/p' | sed 's/  .*//' |
			grep -oE -e '--[a-z0-9][a-z0-9-]*')
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
		return
	fi
	case ${prog##*/} in
	kvdiag) words='nodes pools keys key stats links config' ;;
	kvbench) words='local store' ;;
	esac
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		[[ " $words " != *" $word "* ]] || words=
	done
	if [[ -n $words ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	fi
}

complete -o default -F _kvpool kvmaster kvclient kvput kvget kvrm kvdiag kvbench
