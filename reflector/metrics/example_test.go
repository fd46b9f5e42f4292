package metrics_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/metrics"
)

// The reflectors of a registry are read when Prometheus scrapes; one that has stopped leaves nothing behind.
func ExampleRegister() {
	registry := &reflector.Registry{} // hand it to the reflectors' Config
	err := metrics.Register(prometheus.NewRegistry(), registry)
	fmt.Println(err)
	// Output: <nil>
}
