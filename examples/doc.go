// Package examples holds programs that use nodewatch, one a folder. They are a
// module of their own, so that what they require besides the library
// (controller-runtime, OpenTelemetry) stays out of the library's go.mod.
package examples
