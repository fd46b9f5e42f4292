package sharded

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain: what is let go leaves no goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
