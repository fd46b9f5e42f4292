// Package ctxerr makes the error of a context that ended.
package ctxerr

import (
	"context"
	"errors"
	"fmt"
)

// Of returns ctx's own error and its cause, where that is another one, so that
// errors.Is holds for both: who only looks for context.Canceled finds it, and who
// gave a cause finds that. It is nil while ctx has not ended.
func Of(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause // of the two the one that says more
	}
	return fmt.Errorf("%w: %w", err, cause)
}
