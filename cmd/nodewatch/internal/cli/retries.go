package cli

import (
	"context"
	"log/slog"
)

// noRetries leaves out of a log what announces the next try, in a run that its first failure ends: the
// failure is its last line, and the try does not come. The reflector names each wait "delay".
type noRetries struct{ slog.Handler }

// Handle implements slog.Handler.
func (h noRetries) Handle(ctx context.Context, r slog.Record) error {
	announces := false
	r.Attrs(func(a slog.Attr) bool {
		announces = a.Key == "delay"
		return !announces
	})
	if announces {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h noRetries) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noRetries{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h noRetries) WithGroup(name string) slog.Handler { return noRetries{h.Handler.WithGroup(name)} }
