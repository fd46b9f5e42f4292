package debugpage

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// notOnThePage are fields of which the page shows something else: what is in the
// mailboxes, what the counts say in other words.
var notOnThePage = []string{
	"Stats.Subscribers", "Stats.MailboxAge", "Stats.Coalesced", "Stats.Resyncs", // as sums; each subscriber's are shown
	"Stats.HandlerDuration",
	"Mailbox.Since",
}

// A field that is added to Status, Stats or Mailbox is shown, or named in notOnThePage:
// the page changes when the field does.
func TestEveryFieldIsShown(t *testing.T) {
	synctest.Test(t, everyField) // time stands still
}

func everyField(t *testing.T) {
	now := time.Now()
	textOf := func(change func(*fake)) string {
		f := full(now)
		change(f)
		d := parse(t, get(t, Config{Registry: fakes{f}}, "/", ""))
		return d.text(d.root)
	}
	base := textOf(func(*fake) {})
	check := func(name string, of func(*fake) reflect.Value) {
		for i := range of(full(now)).NumField() {
			field := name + "." + of(full(now)).Type().Field(i).Name
			if slices.Contains(notOnThePage, field) {
				continue
			}
			if got := textOf(func(f *fake) { alter(t, field, of(f).Field(i)) }); got == base {
				t.Errorf("the page does not show %s", field)
			}
		}
	}
	check("Status", func(f *fake) reflect.Value { return reflect.ValueOf(&f.status).Elem() })
	check("Stats", func(f *fake) reflect.Value { return reflect.ValueOf(&f.stats).Elem() })
	check("Mailbox", func(f *fake) reflect.Value { return reflect.ValueOf(&f.stats.Mailboxes[0]).Elem() })
	check("Quarantined", func(f *fake) reflect.Value { return reflect.ValueOf(&f.status.Quarantined[0]).Elem() })
	check("Member", func(f *fake) reflect.Value { return reflect.ValueOf(&f.status.Members[0]).Elem() })
	check("Restart", func(f *fake) reflect.Value { return reflect.ValueOf(f.status.LastRestart).Elem() })
}

// full has something in every field.
func full(now time.Time) *fake {
	f := slow("full", now)
	f.stats.Retained = 1
	f.stats.BackoffDelay, f.stats.BackoffTotal = time.Minute, time.Hour
	f.status.NextAttempt = now.Add(time.Minute)
	f.status.State = reflector.StateListing
	f.status.ListedItems, f.status.RemainingItems = 1, 2
	f.status.LastRestart.Err, f.status.LastError = errors.New("one"), errors.New("two")
	f.status.Quarantined = spoiled("", now, 1, errors.New("three")).status.Quarantined
	f.status.Members = union("", now).status.Members
	return f
}

// alter gives v another value of its type.
func alter(t *testing.T, field string, v reflect.Value) {
	t.Helper()
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = p.Add(-100 * time.Hour)
	case *time.Duration:
		*p += 100 * time.Hour
	case *error:
		*p = errors.New("altered")
	case *map[reason.Reason]uint64:
		(*p)[reason.Idle] = 4711
	case *map[string]uint64:
		for _, key := range slices.Concat(reflector.Outcomes(), reflector.EventTypes(), reflector.Causes()) {
			(*p)[key] = 4711
		}
	case *reflector.Histogram:
		p.Count, p.Sum = 3, 300*time.Hour
	case *[]reflector.Mailbox:
		*p = nil
	case *[]reflector.Quarantined:
		*p = nil
	case *[]reflector.Member:
		*p = nil
	case *decode.Key:
		p.Name = "altered"
	case *reflector.Policy:
		*p = reflector.Resync
	case **reflector.Restart:
		*p = nil
	case *reflector.Status:
		p.State = "Altered"
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString("altered")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(4711)
		case reflect.Uint64:
			v.SetUint(4711)
		default:
			t.Fatalf("%s: alter a %s, too", field, v.Type())
		}
	}
}
