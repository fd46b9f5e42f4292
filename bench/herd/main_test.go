package herd

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// client-go's handlers of errors print, and hold back by the time of the
	// process, which is not that of a bubble.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if code == 0 && *results != "" {
			if err := writeResults(*results, *clients, *pods, measured); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
		os.Exit(code)
	}))
}
