package reflector

import "testing"

// Config.Tracer: "nil is none, and costs nothing".
func TestNoTracerCostsNothing(t *testing.T) {
	r, err := New(Config[any]{ListerWatcher: away{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		r.traced(ctx, stopped{})
		r.trace(ctx, exit{next: stopped{}})
		r.trace(ctx, exit{next: listing{}})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if r.spans.end != nil || r.spans.ctx != nil {
		t.Error("a span began")
	}
}
