package reflector

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestUnionRestored: what a member told of a history that the server lost, and left before it noticed, gives way to what the
// others have as soon as that is proved, and to nothing less. "N PASSED@RV=LATER" is a bookmark at RV of member N, for
// which something from LATER is in question.
func TestUnionRestored(t *testing.T) {
	for _, c := range []struct {
		name     string
		in, want []string
	}{
		{
			"an end: a watch that has not come so far proves nothing",
			[]string{"1 ADDED web/u1@50", "2 ADDED web/u1@50", "1 DELETED web/u1@100", "2 PASSED@62=100", "2 PASSED@99=100"},
			[]string{"ADDED web/u1@50", "DELETED web/u1@100"},
		},
		{
			"and one that has come so far does",
			[]string{"1 ADDED web/u1@50", "2 ADDED web/u1@50", "1 DELETED web/u1@100", "2 PASSED@62=100", "2 PASSED@100", "2 PASSED@101"},
			[]string{"ADDED web/u1@50", "DELETED web/u1@100", "ADDED web/u1@50"},
		},
		{
			"an end that was one",
			[]string{"1 ADDED web/u1@50", "2 ADDED web/u1@50", "1 DELETED web/u1@100", "2 DELETED web/u1@100", "2 PASSED@100"},
			[]string{"ADDED web/u1@50", "DELETED web/u1@100"},
		},
		{
			"what begins after the end was told",
			[]string{"1 ADDED web/u1@50", "1 DELETED web/u1@100", "2 ADDED web/u1@50", "2 MODIFIED web/u1@61<50", "2 PASSED@62=100", "2 PASSED@100"},
			[]string{"ADDED web/u1@50", "DELETED web/u1@100", "ADDED web/u1@61"},
		},
		{
			"another object of the name",
			[]string{"1 ADDED web/u1@50", "2 ADDED web/u1@50", "1 DELETED web/u1@80", "1 ADDED web/u2@100", "1 DELETED web/u2@100?", "2 PASSED@62=80", "2 PASSED@80"},
			[]string{"ADDED web/u1@50", "DELETED web/u1@80", "ADDED web/u2@100", "DELETED web/u2@100?", "ADDED web/u1@50"},
		},
		{
			"a version",
			[]string{"1 ADDED web/u1@100", "2 ADDED web/u1@50", "1 DELETED web/u1@100?", "2 PASSED@62=100", "2 PASSED@100"},
			[]string{"ADDED web/u1@100", "MODIFIED web/u1@50<100"},
		},
		{
			"a version of a member that is there: its word holds, and nothing is in question",
			[]string{"1 ADDED web/u1@100", "2 ADDED web/u1@50", "2 PASSED@62"},
			[]string{"ADDED web/u1@100"},
		},
		{
			"a list that shows that the server went back proves what comes after it, too",
			[]string{"1 ADDED web/u1@100", "2 ADDED web/u1@50", "2 SYNCED@62!", "2 MODIFIED web/u1@63<50", "1 DELETED web/u1@100?"},
			[]string{"ADDED web/u1@100", "MODIFIED web/u1@63<100"},
		},
		{
			"the member whose version is shown goes back, and the other has it still",
			[]string{"1 ADDED web/u1@192", "2 ADDED web/u1@190", "2 MODIFIED web/u1@192<190", "1 MODIFIED web/u1@142<192", "1 SYNCED@183!", "2 DELETED web/u1@192?"},
			[]string{"ADDED web/u1@192", "MODIFIED web/u1@142<192"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newMerging()
			for _, in := range c.in {
				at, want, passed := in, "", false
				if member, rest, ok := strings.Cut(in, " PASSED@"); ok {
					at, want, _ = strings.Cut(rest, "=")
					if passed = true; g.passed(uint32(member[0]-'0'), at) != want {
						t.Errorf("%s: in question is %q", in, g.passed(uint32(member[0]-'0'), at))
					}
				}
				if !passed {
					g.tell(t, at)
				}
			}
			if got := g.told(); !slices.Equal(got, c.want) {
				t.Errorf("%q:\n got %q\nwant %q", c.in, got, c.want)
			}
		})
	}
}

// What members were told is known to all, until a list shows that it is history; and what a member that left was told is
// asked of each of the others once.
func TestUnionKnows(t *testing.T) {
	u, from, to := replacedUnion(t, slog.DiscardHandler, "a/u1@10")
	check := func(when, known, gone string, owes bool) {
		t.Helper()
		if got := to.known(); got != known || u.gone != gone || to.owes != owes {
			t.Errorf("%s: known is %q, gone %q, owes %t; want %q, %q, %t", when, got, u.gone, to.owes, known, gone, owes)
		}
	}
	check("a list of the old one", "100", "", true)
	from.passed("140")
	check("a bookmark of it", "140", "", true)
	fill(to, "a/u1@10")
	check("a list of the new one", "140", "", false)
	u.letGo()
	check("the old one left", "140", "140", true)
	to.passed("139")
	check("the new one has not come so far", "140", "140", true)
	to.passed("140")
	check("it has", "140", "140", false)
	to.owes = true
	to.r.store.beginReplace().commit("145", false)
	check("a list has", "145", "140", false)
	to.owes = true
	to.r.store.beginReplace().commit("20", true)
	check("a list of a server that went back", "20", "", false)
}

// knows is a union that was told of a resourceVersion.
type knows string

func (k knows) known() string      { return string(k) }
func (knows) passed(string) string { return "" }

// A list of the newest state that is older than what another member was told is of a server that went back in time: what
// is stored is compared with it by content, and where that shows only in the end it is read once more.
func TestFloor(t *testing.T) {
	for _, c := range []struct {
		asked, rv            string
		stored               bool
		doubtful, metadataOn bool // wanted; whether the metadata comes first
		refused              bool // wanted
	}{
		{"", "66", true, true, true, false},
		{"", "66", true, false, false, true},
		{"", "66", false, false, false, false}, // nothing was taken for unchanged
		{"", "100", true, false, true, false},
		{"60", "66", true, false, true, false}, // it may come from a cache
	} {
		f := feed(t, Config[*corev1.Pod]{})
		f.r.among = knows("100")
		if c.stored {
			f.give(watch.Added, podAt("a", 40, corev1.PodPending))
			f.r.session.synced("60")
		}
		in := f.r.newIntake(t.Context(), c.asked)
		in.floor = f.r.floor(c.asked)
		if c.metadataOn {
			if err := in.Meta(metav1.ListMeta{ResourceVersion: c.rv}); err != nil {
				t.Fatal(err)
			}
		}
		err := in.refuses(c.rv)
		if in.rep.doubtful != c.doubtful || (err != nil) != c.refused {
			t.Errorf("%+v: doubtful %t, refused: %v", c, in.rep.doubtful, err)
		}
		in.commit(c.rv)
		if n := f.r.Stats().Regressions; n != 1 && c.asked == "" && c.rv == "66" || n != 0 && c.rv == "100" {
			t.Errorf("%+v: %d regressions", c, n)
		}
	}
}
