package shared

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain: a Pool that was closed, and a collection nobody holds, has no goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
