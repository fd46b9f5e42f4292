package debugpage_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/debugpage"
	"github.com/nodewatch-go/nodewatch/reflector/health"
)

// The page, readiness and liveness of a program's reflectors.
func Example() {
	registry := &reflector.Registry{} // the reflectors' Config.Registry
	page, err := debugpage.New(debugpage.Config{Registry: registry})
	if err != nil {
		panic(err)
	}
	ready, err := health.New(health.Config{Registry: registry, Expected: []string{"pods"}})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /debug/reflectors", page)
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /healthz", health.Live())

	for _, path := range []string{"/healthz", "/readyz", "/debug/reflectors"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Print(path, ": ", w.Code, " ", w.Body)
	}
	// Output:
	// /healthz: 200 ok
	// /readyz: 503 pods: does not run
	// /debug/reflectors: 200 {
	//   "Reflectors": [],
	//   "ReflectorsLeftOut": 0
	// }
}
