//go:build !unix

package cli

import (
	"context"
	"os"
)

// readerGone returns when ctx ends: here only a write finds out that a reader went away.
func readerGone(ctx context.Context, _ *os.File) bool {
	<-ctx.Done()
	return false
}
