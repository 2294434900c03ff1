#!/bin/sh
# kvbench report: the table and the chart are what they were.
# shellcheck disable=SC2016 # no commands, but Markdown
. "$(dirname "$0")/../lib/tap.sh"
PATH=$KV_BIN:$PATH
cd "$T" || exit 70

cat >old.json <<'END'
{"host":"node-1","version":"0.1.0","results":[
{"name":"put_4k","held":null,"value":68.125,"unit":"us","floor":36.5,
 "floor_name":"chain","ratio":1.866438,"better":"less","bar":1.25,"met":false},
{"name":"get_copy","held":null,"value":10.086,"unit":"GB/s","floor":10.75,
 "floor_name":"copy","ratio":0.938233,"better":"more","bar":0.9,"met":true},
{"name":"exist_100k","held":1000000,"value":10.5,"unit":"M keys/s",
 "floor":17.5,"floor_name":"probe","ratio":0.6,"better":"more","bar":0.6,
 "met":true},
{"name":"grow_stall_bare","held":123456,"value":3.5,"unit":"ms","floor":10,
 "floor_name":"bar","ratio":0.35,"better":"less","bar":null,"met":null}]}
END
cat >"a&b.json" <<'END'
{"host":"x<y","version":"0.2.0","results":[
{"name":"put_4k","held":null,"value":40,"unit":"us","floor":32,
 "floor_name":"chain","ratio":1.25,"better":"less","bar":1.25,"met":true},
{"name":"get_copy","held":null,"value":8,"unit":"GB/s","floor":10,
 "floor_name":"copy","ratio":0.8,"better":"more","bar":0.9,"met":false},
{"name":"exist_100k","held":10000000,"value":1234.5,"unit":"M keys/s",
 "floor":14,"floor_name":"probe","ratio":88.18,"better":"more","bar":0.6,
 "met":true}]}
END
cat >want.md <<'END'
| figure | keys held | bar | old | a?b | change |
|---|---|---|---|---|---|
| `put_4k` |  | ≤ 1.25 | 68.12 us (1.87, missed) | 40.00 us (1.25) | +49 % |
| `get_copy` |  | ≥ 0.90 | 10.09 GB/s (0.94) | 8.00 GB/s (0.80, missed) | -15 % |
| `exist_100k` | 10^6 | ≥ 0.60 | 10.50 M keys/s (0.60) | – | – |
| `grow_stall_bare` | 123456 |  | 3.50 ms (0.35) | – | – |
| `exist_100k` | 10^7 | ≥ 0.60 | – | 1234 M keys/s (88.18) | – |

In parentheses: the ratio to the floor that was measured in turns with it.

- old: kvpool 0.1.0 on `node-1`
- a?b: kvpool 0.2.0 on `x<y`
END
cat >want.svg <<'END'
<svg xmlns="http://www.w3.org/2000/svg" width="880" height="208" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
<text x="8" y="18" font-size="13">How much of what it should reach each figure reaches; beside it its ratio to the floor</text>
<line x1="495" y1="68" x2="495" y2="200" stroke="black"/>
<rect x="210" y="28" width="12" height="12" fill="#4878a8"/>
<text x="228" y="38">old: kvpool 0.1.0 on node-1</text>
<rect x="210" y="46" width="12" height="12" fill="#e08a2c"/>
<text x="228" y="56">a?b: kvpool 0.2.0 on x&lt;y</text>
<text x="202" y="81" text-anchor="end">put_4k ≤ 1.25</text>
<rect x="210" y="72" width="190" height="10" fill="#4878a8"/>
<text x="404" y="81">1.87</text>
<rect x="210" y="84" width="285" height="10" fill="#e08a2c"/>
<text x="499" y="93">1.25</text>
<text x="202" y="113" text-anchor="end">get_copy ≥ 0.90</text>
<rect x="210" y="104" width="297" height="10" fill="#4878a8"/>
<text x="511" y="113">0.94</text>
<rect x="210" y="116" width="253" height="10" fill="#e08a2c"/>
<text x="467" y="125">0.80</text>
<text x="202" y="145" text-anchor="end">exist_100k (10^6) ≥ 0.60</text>
<rect x="210" y="136" width="285" height="10" fill="#4878a8"/>
<text x="499" y="145">0.60</text>
<text x="202" y="177" text-anchor="end">exist_100k (10^7) ≥ 0.60</text>
<rect x="210" y="180" width="570" height="10" fill="#e08a2c"/>
<text x="784" y="189">» 88.18</text>
</svg>
END

ok 'a table' kvbench report old.json 'a&b.json'
is "$(diff out want.md)" '' 'is as it should be'
ok 'a chart on stdout' kvbench report --svg=- old.json 'a&b.json'
is "$(diff out want.svg)" '' 'is as it should be'
ok 'both to files' kvbench report -o t.md --svg=c.svg old.json 'a&b.json'
is "$(cat out)" '' 'nothing on stdout'
is "$(diff t.md want.md) $(diff c.svg want.svg)" ' ' 'both are the same'
ok 'one file' kvbench report old.json
is "$(sed -n 3p out)" '| `put_4k` |  | ≤ 1.25 | 68.12 us (1.87, missed) |' \
	'no change'
ok 'what was measured just now' sh -c 'kvbench --json --rounds=1 --time=5ms \
	--pieces=20 --only=raw_write bars >now.json && kvbench report now.json'
like "$(cat out)" '^\| `raw_write` \|  \| ≥ 0.95 \| [0-9.]+ GB/s \([0-9.]+' \
	'is read'

exits 64 'no file' kvbench report
exits 66 'a file that is not there' kvbench report none.json
like "$(cat err)" '^kvbench: none.json: No such file' 'says so'
echo '{"host":"a","version":"1","results":[{"name":"a"}]}' >bad.json
exits 65 'no results' kvbench report old.json bad.json
is "$(cat err)" \
	'kvbench: bad.json: "unit" is no printable text of at most 127 bytes' \
	'says why'
echo '{"host":' >cut.json
exits 65 'a file that was cut' kvbench report cut.json
like "$(cat err)" '^kvbench: cut.json: line 2, column 1: ' 'says where'
exits 73 'nowhere to write' kvbench report -o none/t.md old.json
exits 74 'a full disk' sh -c 'kvbench report old.json >/dev/full'
done_testing
