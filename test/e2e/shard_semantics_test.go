package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	serversharding "k8s.io/apiserver/pkg/sharding"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
)

// onGates runs test on each target, with the feature gate of shardSelector on and off.
func onGates(t *testing.T, test func(t *testing.T, tg target, on bool)) {
	for _, on := range []bool{true, false} {
		name, fake := "gate=off", listwatchtest.ShardingOff
		if on {
			name, fake = "gate=on", listwatchtest.ShardingOn
		}
		t.Run(name, func(t *testing.T) {
			onTargetsOf(t, map[string]func(*testing.T) target{
				"real": func(t *testing.T) target {
					return startRealWith(t, fmt.Sprintf("--feature-gates=ShardedListAndWatch=%t", on))
				},
				"fake": func(t *testing.T) target { return startFakeWith(t, listwatchtest.Config{Sharding: fake}) },
			}, func(t *testing.T, tg target) { test(t, tg, on) })
		})
	}
}

// TestShardSemantics compares what a server makes of shardSelector with what
// kube-apiserver made of it.
func TestShardSemantics(t *testing.T) {
	onGates(t, func(t *testing.T, tg target, on bool) {
		w := smallCluster(t.Context(), t, tg)
		w.settle(t.Context(), t)
		w.takePage(t)
		table := "shard-off"
		if on {
			table = "shard-on"
		}
		t.Run(table, func(t *testing.T) {
			runTable(t, table, shardRows(), func(ctx context.Context, t *testing.T, p probe) string {
				record := p.recordStream
				if !strings.Contains(p.path, "watch=1") {
					record = p.record
				}
				// What the CEL parser says of what is not CEL, the fake says in other words.
				return celError.ReplaceAllString(record(ctx, t, w), "CEL parse error: ...\"")
			})
		})
	})
}

var celError = regexp.MustCompile(`CEL parse error: .*"`)

// recordStream writes down a watch: up to the end of its initial events, or its own.
func (p probe) recordStream(ctx context.Context, t *testing.T, w *world) string {
	t.Helper()
	return p.recordWatch(ctx, t, w, func(out *strings.Builder) func(event) bool {
		return func(e event) bool {
			if e.Type != "BOOKMARK" {
				return false
			}
			fmt.Fprintf(out, "at the end: %s ", e.Type)
			w.writeObject(out, e.Object, p.asked(w))
			return true
		}
	})
}

// shardRows ask by namespace, whose hash is known: those of "other" and "big" are in the first quarter of
// the space, that of "default" is in the last one.
func shardRows() map[string]probe {
	const (
		zero, quarter, half, end = "'0x0000000000000000'", "'0x4000000000000000'", "'0x8000000000000000'", "'0x10000000000000000'"
		uid, namespace           = "object.metadata.uid", "object.metadata.namespace"
		watchList                = "&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	)
	call := func(args ...string) string { return "shardRange(" + strings.Join(args, ", ") + ")" }
	low, high, all := call(namespace, zero, half), call(namespace, half, end), call(uid, zero, end)
	pods := func(selector, more string) probe {
		return probe{path: "/api/v1/pods?shardSelector=" + url.QueryEscape(selector) + more}
	}
	rows := map[string]probe{
		"low":                     pods(low, ""),
		"high":                    pods(high, ""),
		"all by uid":              pods(all, ""),
		"low or high":             pods(low+" || "+high, ""),
		"overlapping":             pods(low+"||"+call(namespace, quarter, end), ""),
		"blanks":                  pods("  ( shardRange ( object . metadata.namespace,"+zero+` ,"0x8000000000000000"`+") )  ", ""),
		"method":                  pods("x."+low, ""),
		"with label":              pods(high, "&labelSelector=app%3Dweb"),
		"with field":              pods(high, "&fieldSelector=spec.nodeName%3Dnode-a"),
		"one name":                pods(low, "&fieldSelector=metadata.name%3Dalpha,metadata.namespace%3Ddefault"),
		"limit":                   pods(high, "&limit=1"),
		"limit of all":            pods(low, "&limit=2"),
		"continue":                pods(high, "&limit=3&continue={token}"),
		"rv=0":                    pods(high, "&resourceVersion=0"),
		"rv=0,limit":              pods(high, "&resourceVersion=0&limit=1"),
		"rv=mid,exact":            pods(high, "&resourceVersion={mid}&resourceVersionMatch=Exact"),
		"protobuf":                pods(high, ""),
		"metadata":                pods(high, ""),
		"table":                   pods(high, ""),
		"twice":                   pods(low, "&shardSelector="+url.QueryEscape(high)),
		"empty":                   pods("", ""),
		"get":                     {path: "/api/v1/namespaces/default/pods/alpha?shardSelector=bad"},
		"delete collection":       {method: http.MethodDelete, path: "/api/v1/namespaces/kube-public/pods?shardSelector=" + url.QueryEscape(low)},
		"watch-list":              pods(high, watchList),
		"watch-list,protobuf":     pods(high, watchList),
		"watch-list,metadata":     pods(low, watchList),
		"watch":                   pods(high, "&watch=1&resourceVersion={first}&timeoutSeconds=1"),
		"watch,low":               pods(low, "&watch=1&resourceVersion={first}&timeoutSeconds=1"),
		"bad,watch-list":          pods(call(uid, half, half), watchList+"&timeoutSeconds=1"),
		"bad,watch":               pods(call(uid, half, half), "&watch=1&resourceVersion={head}&timeoutSeconds=1"),
		"bad,watch,rv=garbage":    pods(call(uid, half, half), "&watch=1&resourceVersion=abc"),
		"bad,rv=garbage":          pods(call(uid, half, half), "&resourceVersion=abc"),
		"bad,continue=garbage":    pods(call(uid, half, half), "&continue=abc"),
		"bad,limit=garbage":       pods(call(uid, half, half), "&limit=abc"),
		"bad,label garbage":       pods(call(uid, half, half), "&labelSelector=app%3D%3D%3D"),
		"bad,field unknown":       pods(call(uid, half, half), "&fieldSelector=spec.bogus%3Dx"),
		"bad,protobuf":            pods(call(uid, half, half), ""),
		"bad,two fields":          pods(low+"||"+all, ""),
		"bad,other field":         pods(call("object.metadata.name", zero, half), ""),
		"bad,field selector's":    pods(call("metadata.uid", zero, half), ""),
		"bad,leading dot":         pods(call(".object.metadata.uid", zero, half), ""),
		"bad,no field":            pods(call("'uid'", zero, half), ""),
		"bad,short":               pods(call(uid, "'0x0'", half), ""),
		"bad,upper case":          pods(call(uid, zero, "'0xABCDEF0000000000'"), ""),
		"bad,no prefix":           pods(call(uid, "'0000000000000000'", half), ""),
		"bad,prefix alone":        pods(call(uid, "'0x'", half), ""),
		"bad,beyond the end":      pods(call(uid, zero, "'0x10000000000000001'"), ""),
		"bad,too long":            pods(call(uid, zero, "'0x100000000000000000'"), ""),
		"bad,numbers":             pods(call(uid, "0", "1"), ""),
		"bad,end is a field":      pods(call(uid, zero, uid), ""),
		"bad,two arguments":       pods(call(uid, zero), ""),
		"bad,other function":      pods("foo("+uid+")", ""),
		"bad,global function":     pods("."+low, ""),
		"bad,and":                 pods(low+" && "+low, ""),
		"bad,and, then or":        pods(low+" || "+low+" && "+low, ""),
		"bad,a field":             pods("object", ""),
		"bad,blank":               pods("  ", ""),
		"bad,brackets":            pods("((", ""),
		"bad,no end of string":    pods(call(uid, zero, "'0x8"), ""),
		"bad,trailing":            pods(low+" ||", ""),
		"unknown namespace":       {path: "/api/v1/namespaces/nowhere/pods?shardSelector=" + url.QueryEscape(all)},
		"nodes have no namespace": {path: "/api/v1/nodes?shardSelector=" + url.QueryEscape(high)},
	}
	for name, accept := range map[string]string{"protobuf": mediaProtobuf, "metadata": mediaPartials, "table": mediaTable,
		"watch-list,protobuf": mediaProtobuf, "watch-list,metadata": mediaPartial, "bad,protobuf": mediaProtobuf} {
		p := rows[name]
		p.accept = accept
		rows[name] = p
	}
	return rows
}

// TestShardParse: shard.Parse takes what the server's parser takes, and says the same. Texts
// are made of pieces of selectors; what has an escape or a comment in it is left to the fuzz target.
func TestShardParse(t *testing.T) {
	pieces := []string{"shardRange", "(", ")", ",", " ", "||", "&&", ".", "object", "object.metadata.uid", "object.metadata.namespace", "'", `"`, "'''",
		"'0x0000000000000000'", "'0x8000000000000000'", "'0x10000000000000000'", "'0x0'", "'0xg'", "0", "17", "r'x'", "\n", "(object).metadata.uid",
		"shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
		"shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"}
	random := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 5000 {
		var text strings.Builder
		for range 1 + random.IntN(9) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		if compareParsers(t, text.String()) {
			taken++
		}
	}
	if taken < 30 {
		t.Errorf("of all texts %d were selectors", taken)
	}
}

// compareParsers reports whether both take the text.
func compareParsers(t *testing.T, text string) bool {
	t.Helper()
	want, wantErr := serversharding.Parse(text)
	got, err := shard.Parse(text)
	const syntax = "CEL parse error"
	switch {
	case (err == nil) != (wantErr == nil):
		t.Errorf("%q: error is %v, the server's %v", text, err, wantErr)
	case err == nil && got.String() != want.String():
		t.Errorf("%q is %s, for the server %s", text, got, want)
	case err != nil && err.Error() != wantErr.Error() && !strings.Contains(err.Error()+wantErr.Error(), syntax):
		t.Errorf("%q: error is %v, the server's %v", text, err, wantErr)
	}
	return err == nil && wantErr == nil
}

// beyond is CEL that shard.Parse does not know: what is in front of a method, negations, escapes.
var beyond = regexp.MustCompile("[\\\\`!{}\\[\\]?:<>=+*%-]|[0-9][0-9A-Za-z]*\\s*\\.")

// FuzzShardParse is TestShardParse for anything that has nothing in it which only the server reads.
func FuzzShardParse(f *testing.F) {
	for _, p := range shardRows() {
		u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(p.path))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(u.Query().Get("shardSelector"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !beyond.MatchString(text) {
			compareParsers(t, text)
		}
	})
}
