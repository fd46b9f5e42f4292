// Package otel makes OpenTelemetry spans of what a reflector does: an adapter
// of reflector.Tracer, to be copied.
//
//	reflector.Config[*corev1.Pod]{…, Tracer: otel.New(provider)}
//
// With a transport that traces, requests are children of those spans:
//
//	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(next, …) })
package otel
