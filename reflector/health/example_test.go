package health_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/health"
)

// Ready when the reflector called pods runs, has a complete store, and knows it to be current.
func ExampleReadiness() {
	registry := &reflector.Registry{}
	ready, err := health.New(health.Config{Registry: registry, Expected: []string{"pods"}})
	must(err)
	status := func() int {
		w := httptest.NewRecorder()
		ready.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code
	}
	fmt.Println("before:", status())

	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
	must(err)
	r, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, Registry: registry, OnStop: lw.Close})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		must(r.Run(ctx))
	}()
	must(r.WaitForSync(ctx))
	fmt.Println("while it runs:", status())
	cancel()
	<-stopped
	fmt.Println("after:", status())
	// Output:
	// before: 503
	// while it runs: 200
	// after: 503
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
