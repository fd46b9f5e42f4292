package simulator

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mutant is a known bug that is planted into the code: one text of one file
// replaced by another. Most of them were bugs of some list/watch client.
type mutant struct {
	name     string
	file     string // below the module's root
	old, new string // old occurs exactly once
}

var mutants = []mutant{
	{
		"takes the resourceVersion of an item for the list's",
		"reflector/state_listing.go",
		"r.complete(meta.ResourceVersion, asked, asked, res)",
		`r.complete(map[bool]string{true: string(in.heard), false: meta.ResourceVersion}[len(in.heard) > 0], asked, asked, res)`,
	},
	{
		"accepts a list at the resourceVersion that was refused",
		"reflector/state_listing.go",
		`case got != "" && got == r.session.refused:`,
		`case got != "" && got == "refused":`,
	},
	{
		"forgets the deletes that a relist finds",
		"reflector/store_replace.go",
		"for _, e := range gone {",
		"for _, e := range gone[:0] {",
	},
	{
		"resumes after 410",
		"reflector/state_watching.go",
		"e := r.relist(why, err, s.relistRV(), spread)",
		"e := again",
	},
	{
		"lists after a reset connection",
		"reflector/state_watching.go",
		"\tfailed := s.failed\n",
		"\tif why == reason.Transport {\n\t\treturn r.relist(why, err, \"\", spread)\n\t}\n\tfailed := s.failed\n",
	},
	{
		"moves its resourceVersion by what is not of the collection",
		"reflector/state_watching.go",
		"\t\tcase skipped:\n\t\t\ta.note(time.Now())\n\t\t\treturn nil\n",
		"\t\tcase skipped:\n\t\t\ta.note(time.Now())\n",
	},
	{
		"takes a list that was cut for complete",
		"listwatch/list.go",
		"\tif err == nil {\n\t\treturn l.meta, nil\n\t}\n\tvar stop",
		"\tif err == nil || errors.Is(err, io.ErrUnexpectedEOF) {\n\t\treturn l.meta, nil\n\t}\n\tvar stop",
	},
	{
		"ignores bookmarks",
		"reflector/state_watching.go",
		"r.session.advance(rv, bookmark)",
		"if !bookmark {\n\t\tr.session.advance(rv, bookmark)\n\t}",
	},
	{
		"ends a watch-list at a plain bookmark",
		"reflector/state_watchlisting.go",
		"if m := ev.Object.Meta; m.InitialEventsEnd {",
		`if m := ev.Object.Meta; m.ResourceVersion != "" {`,
	},
	{
		"asks for watch-lists for ever",
		"reflector/session.go",
		"watchListTries = 3",
		"watchListTries = 3000",
	},
	{
		"has no watchdog for silence",
		"reflector/attempt.go",
		"a.sw.SetIdleTimeout(limit)",
		"a.sw.SetIdleTimeout(0 * limit)",
	},
	{
		"resets its backoff after one good list",
		"reflector/reflector.go",
		"\tr.session.synced(rv)\n",
		"\tr.session.synced(rv)\n\tr.backoff.healthy(time.Hour, false)\n",
	},
	{
		"does not heed Retry-After",
		"reflector/backoff.go",
		"if hint = min(hint, maxRetryAfter); hint > 0 {",
		"if hint = min(hint, maxRetryAfter); hint < 0 {",
	},
	{
		"takes a changed UID for a modification",
		"reflector/store.go",
		"if old != nil && old.uid != e.uid {",
		`if old != nil && old.uid == "" {`,
	},
	{
		"delivers the delete of what was never delivered",
		"reflector/mailbox.go",
		"\tcase a.typ == Added && b.typ == Deleted:\n\t\treturn change[T]{}, mergedNone\n",
		"\tcase a.typ == Added && b.typ == Deleted:\n\t\treturn b, mergedOne\n",
	},
	{
		"swallows a delete before an add",
		"reflector/mailbox.go",
		"\treturn change[T]{}, mergedBoth\n",
		"\treturn b, mergedOne\n",
	},
	{
		"ignores a bookmark from before",
		"reflector/state_watching.go",
		"if olderRV(rv, r.session.rv) {",
		`if rv == "before" {`,
	},
	{
		"keeps versions of a lost history",
		"reflector/store_replace.go",
		"if !rewound && !follows(rv, old.rv) {",
		"if !follows(rv, old.rv) {",
	},
	{
		"trusts UID and resourceVersion after a restore",
		"reflector/store_replace.go",
		"\tif reflect.DeepEqual(a, b) {\n",
		"\tif reflect.DeepEqual(a, b) || true {\n",
	},
	{
		"takes a list older than what a cut one brought",
		"reflector/session.go",
		`if s.rv == "" || olderRV(s.rv, s.heard) {`,
		`if s.heard == "never" {`,
	},
	{
		"an undecodable object ends the stream",
		"reflector/state_watching.go",
		"r.applyNews(a, old, m, &c, err)\n",
		"if r.applyNews(a, old, m, &c, err); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n",
	},
	{
		"keeps an object whose name another one took",
		"reflector/store_replace.go",
		"if old == nil || old.uid != m.UID {",
		"if old == nil {",
	},
	{
		"brings back what is gone when it is told again",
		"reflector/ingest.go",
		"if gone.hold(m.UID, m.ResourceVersion) {",
		`if gone.hold(m.UID, m.ResourceVersion) && m.Name == "" {`,
	},
	{
		"says that it is fresh as of the end of a list",
		"reflector/state_listing.go",
		"r.complete(meta.ResourceVersion, asked, asked, res)",
		"r.complete(meta.ResourceVersion, asked, time.Now(), res)",
	},
	{
		"does not close the body of a watch",
		"reflector/attempt.go",
		"\ta.sw.Stop()\n\ta.cancel(nil)\n",
		"\ta.cancel(nil)\n",
	},
	{
		"leaves a goroutine behind when a request is cancelled",
		"listwatch/answer.go",
		"case <-a.ctx.Done():\n\t\t\tif err == nil {",
		"case <-context.WithoutCancel(a.ctx).Done():\n\t\t\tif err == nil {",
	},
	{
		"waits for its backoff when it is told to stop",
		"reflector/state_backingoff.go",
		"case <-ctx.Done():",
		"case <-context.WithoutCancel(ctx).Done():",
	},
	{
		"reads a silent watch from the server's future for ever",
		"reflector/session.go",
		"silentLimit = 4",
		"silentLimit = 4000",
	},
	{
		"believes what a watch-list tells of before what is known",
		"reflector/early.go",
		`return e.rv != "" && follows(e.rv, rv)`,
		`return e.rv == "never" && follows(e.rv, rv)`,
	},
	{
		"holds against a list the older of two words that it has",
		"reflector/store_replace.go",
		"\tr.forget(e.key) // the newer of two words of this list counts\n",
		"",
	},
	{
		"counts short silences instead of adding them up",
		"reflector/session.go",
		"if s.quiet += lived; s.quiet < bookmarkDue/2 {",
		"if s.quiet += lived; s.quiet < 0 {",
	},
	{
		"resumes at once whatever the server ends after a second",
		"reflector/state_watching.go",
		"const soundWatch = 10 * time.Second",
		"const soundWatch = time.Second",
	},
	{
		"tells an object that ceases to match as modified",
		"reflector/filter.go",
		"c.typ, c.ceased = Deleted, true",
		"c.ceased = true",
	},
	{
		"forgets what the subscriber knows when it drops what is pending",
		"reflector/mailbox_resync.go",
		"missed[T]{knows: c.old}",
		"missed[T]{}",
	},
	{
		"does not tell what is gone after a resync",
		"reflector/mailbox_resync.go",
		"\tcase m.is == nil:\n\t\treturn []change[T]{gone}\n",
		"\tcase m.is == nil:\n\t\treturn nil\n",
	},
	{
		"merges versions for a subscriber that wants all",
		"reflector/store.go",
		"newMailbox(sub.Name, sub.Policy, sub.Limit,",
		"newMailbox(sub.Name, Coalesce, min(sub.Limit, 8),",
	},
	{
		"replays versions that were replaced",
		"reflector/replay.go",
		"e, caughtUp := d.current(r.pass[r.told].key)\n",
		"_, caughtUp := d.current(r.pass[r.told].key)\n\t\te := r.pass[r.told]\n",
	},
}

// root is the module's root.
const root = "../.."

// plant returns the file of m with the bug in it.
func plant(t *testing.T, m mutant) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		t.Fatalf("%s has %d times, want once: %s", m.file, n, m.old)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1))
}

// TestMutantsCanBePlanted keeps the table from rotting: each bug still has its
// place, and leaves a file that is Go. `make mutants` shows that each is found.
func TestMutantsCanBePlanted(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] || m.old == m.new {
			t.Errorf("%q is there twice, or changes nothing", m.name)
		}
		names[m.name] = true
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, plant(t, m), 0); err != nil {
			t.Errorf("%q is no Go: %v", m.name, err)
		}
	}
}
