package ctxerr

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestOf(t *testing.T) {
	why := errors.New("enough")
	for name, c := range map[string]struct {
		cause error
		is    []error
		text  string
	}{
		"no cause":        {nil, []error{context.Canceled}, "context canceled"},
		"a cause":         {why, []error{context.Canceled, why}, "context canceled: enough"},
		"a cause with it": {fmt.Errorf("%w by %w", context.Canceled, why), []error{context.Canceled, why}, "context canceled by enough"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := Of(ctx); err != nil {
			t.Errorf("%s: %v before the end", name, err)
		}
		cancel(c.cause)
		err := Of(ctx)
		for _, is := range c.is {
			if !errors.Is(err, is) {
				t.Errorf("%s: %v is not %v", name, err, is)
			}
		}
		if err.Error() != c.text {
			t.Errorf("%s: %q, want %q", name, err, c.text)
		}
	}
}
