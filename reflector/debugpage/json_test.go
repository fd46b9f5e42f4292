package debugpage

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// shownEntry is what tests read of a reflector in JSON.
type shownEntry struct {
	Status struct {
		Name        string
		NextAttempt *time.Time
		Quarantined []struct{ Key, Err string }
		Members     []struct {
			Key    string
			Status struct {
				Synced      bool
				Quarantined []struct{ Key string }
			}
		}
	}
	Stats struct {
		BackoffDelaySeconds float64
		Mailboxes           []struct {
			Name, Policy string
			Depth        int
			AgeSeconds   float64
		}
	}
	Trouble                                              []string
	MembersLeftOut, MailboxesLeftOut, QuarantinedLeftOut int
}

// getJSON returns the entries of a path, how many were left out, and the bytes that it took.
func getJSON(t *testing.T, all fakes, path string) (entries []shownEntry, left, size int) {
	t.Helper()
	w := get(t, Config{Registry: all}, path, "*/*")
	var got struct {
		Reflectors        []shownEntry
		ReflectorsLeftOut *int
	}
	size = w.Body.Len()
	if strings.Contains(w.Body.String(), "0001-01-01") {
		t.Errorf("%s: a time of the year 1", path)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Reflectors == nil || got.ReflectorsLeftOut == nil {
		t.Fatalf("%s: %v: %+v", path, err, got)
	}
	return got.Reflectors, *got.ReflectorsLeftOut, size
}

// JSON has the reflectors in the order of the page, with errors as texts and what is wrong.
func TestJSON(t *testing.T) {
	all := trouble(time.Now())
	got, left, _ := getJSON(t, all, "/")
	if len(got) != len(all) || left != 0 {
		t.Fatalf("%d reflectors of %d, %d left out", len(got), len(all), left)
	}
	byName := map[string]shownEntry{}
	var order []int
	for _, e := range got {
		byName[e.Status.Name] = e
		order = append(order, rank(e.Trouble))
	}
	if !slices.IsSorted(order) {
		t.Errorf("the ranks of trouble are %v", order)
	}
	for _, f := range all {
		want := strings.ToValidUTF8(f.status.Name, "\uFFFD")
		if _, there := byName[want]; len(want) == len(f.status.Name) && !there {
			t.Errorf("%q is not there", want)
		}
	}
	union, slow, carts, waits := byName["nodes"], byName["audited"], byName["carts"], byName["worker-39"]
	// The member that is in trouble comes first.
	if m := union.Status.Members; len(m) != 3 || m[0].Key != "worker-2" || m[0].Status.Synced || !m[1].Status.Synced ||
		!slices.Equal(union.Trouble, []string{"not synced", "backing off"}) {
		t.Errorf("the union is %+v", union)
	}
	if m := slow.Stats.Mailboxes; len(m) != 3 || m[0].Name != "audit" || m[0].Policy != "block" || m[0].Depth != 64 || m[0].AgeSeconds != 21 ||
		slow.Status.NextAttempt != nil || slow.MailboxesLeftOut != 0 {
		t.Errorf("the slow one is %+v", slow)
	}
	if q := carts.Status.Quarantined; len(q) != linesShown || carts.QuarantinedLeftOut != 1200-linesShown || q[7].Key != "shop/cart-00007" ||
		!strings.HasPrefix(q[7].Err, "json: ") {
		t.Errorf("the quarantine has %d objects, %d are left out", len(q), carts.QuarantinedLeftOut)
	}
	if waits.Stats.BackoffDelaySeconds != 4 || waits.Status.NextAttempt == nil {
		t.Errorf("the last one is %+v", waits)
	}
	// Alone there is more of it, and with a limit all.
	for path, want := range map[string]int{"/?reflector=carts": linesOfOne, "/?reflector=carts&limit=1200": 1200, "/?reflector=carts&limit=3": 3} {
		got, left, _ := getJSON(t, all, path)
		if len(got) != 1 || left != 0 || got[0].Status.Name != "carts" || len(got[0].Status.Quarantined) != want || got[0].QuarantinedLeftOut != 1200-want {
			t.Errorf("%s: %d of them, %d objects, %d left out", path, len(got), len(got[0].Status.Quarantined), got[0].QuarantinedLeftOut)
		}
	}
	if got, left, _ := getJSON(t, all, "/?reflector=nobody"); len(got) != 0 || left != 0 {
		t.Errorf("of nobody there are %d, and %d left out", len(got), left)
	}
}

// "JSON has no more reflectors and no longer lists than the page has details, unless ?limit says otherwise, and says
// beside each list how many entries it leaves out." Those in trouble, members in trouble and full mailboxes are not left out.
func TestJSONIsBounded(t *testing.T) {
	now := time.Now()
	var all fakes
	for i := range 3000 {
		f := healthy(fmt.Sprintf("worker-%04d", i), now)
		f.stats.Mailboxes = make([]reflector.Mailbox, 1000)
		all = append(all, f)
	}
	bad := spoiled("bad", now, 5000, errors.New("no"))
	bad.stats.Mailboxes = make([]reflector.Mailbox, 300)
	bad.stats.Mailboxes[298] = reflector.Mailbox{Name: "far behind", Depth: 7}
	bad.stats.Mailboxes[299] = reflector.Mailbox{Name: "blocks", BlockedSince: now, Depth: 1}
	for i := range 200 {
		m := healthy(fmt.Sprint("member-", i), now)
		if i == 199 {
			m = spoiled("member-199", now, 400, errors.New("no"))
		}
		bad.status.Members = append(bad.status.Members, reflector.Member{Key: m.status.Name, Status: m.status})
	}
	asIs := slices.Clone(bad.stats.Mailboxes)
	all = append(all, bad)

	got, left, size := getJSON(t, all, "/")
	if len(got) != sectionsShown || left != 2951 || size > 1<<20 {
		t.Errorf("%d reflectors, %d left out, %d bytes", len(got), left, size)
	}
	e := got[0]
	if e.Status.Name != "bad" || len(e.Status.Quarantined) != 20 || len(e.Status.Members) != 20 || len(e.Stats.Mailboxes) != 20 {
		t.Fatalf("the first is %q with %d, %d and %d", e.Status.Name, len(e.Status.Quarantined), len(e.Status.Members), len(e.Stats.Mailboxes))
	}
	// Those of its member are beside its own.
	if e.QuarantinedLeftOut != 5380 || e.MembersLeftOut != 180 || e.MailboxesLeftOut != 280 {
		t.Errorf("left out are %d, %d and %d", e.QuarantinedLeftOut, e.MembersLeftOut, e.MailboxesLeftOut)
	}
	if m := e.Status.Members[0]; m.Key != "member-199" || len(m.Status.Quarantined) != 0 {
		t.Errorf("the first member is %s with %d objects", m.Key, len(m.Status.Quarantined))
	}
	if m := e.Stats.Mailboxes; m[0].Name != "blocks" || m[1].Name != "far behind" {
		t.Errorf("the mailboxes are %+v", m)
	}
	if !slices.Equal(bad.stats.Mailboxes, asIs) || bad.status.Members[0].Key != "member-0" {
		t.Error("what the reflector gave has another order now")
	}
	if got, left, _ = getJSON(t, all, "/?limit=60"); len(got) != 60 || left != 2941 || len(got[59].Stats.Mailboxes) != 60 {
		t.Errorf("of 60 there are %d, and %d left out", len(got), left)
	}
	got, left, _ = getJSON(t, all, "/?limit=5000&reflector=bad")
	if e := got[0]; left != 0 || len(e.Status.Quarantined) != 5000 || e.QuarantinedLeftOut != 400 || len(e.Status.Members) != 200 || len(e.Stats.Mailboxes) != 300 {
		t.Errorf("%d, %d and %d of all", len(e.Status.Quarantined), len(e.Status.Members), len(e.Stats.Mailboxes))
	}
	got, _, _ = getJSON(t, all, "/?limit=5400&reflector=bad")
	if e := got[0]; e.QuarantinedLeftOut != 0 || len(e.Status.Members[0].Status.Quarantined) != 400 {
		t.Errorf("%d are left out of all", e.QuarantinedLeftOut)
	}
	if w := get(t, Config{Registry: all}, "/?limit=0", ""); !strings.Contains(w.Body.String(), "limit must be a positive number, as in 500") {
		t.Errorf("limit=0: %s", w.Body)
	}
}
