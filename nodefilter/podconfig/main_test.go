package podconfig

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain: stopping the context ends every goroutine, in every test of the package.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
