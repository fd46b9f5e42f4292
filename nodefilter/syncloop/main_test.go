package syncloop

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain: "Everything stops with the context of Run", in every test of the package.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
