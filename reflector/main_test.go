package reflector

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain: "leaks no goroutine and no socket" holds for every test of the package.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
