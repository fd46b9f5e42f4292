package otel

import (
	"context"
	"log/slog"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// Tracer implements reflector.Tracer.
type Tracer struct{ tracer trace.Tracer }

// New returns a Tracer that makes its spans at provider. They are called
// nodewatch.list and so on, and their attributes nodewatch.resource and so on.
func New(provider trace.TracerProvider) Tracer {
	return Tracer{provider.Tracer("github.com/nodewatch-go/nodewatch/reflector")}
}

// Start implements reflector.Tracer.
func (t Tracer) Start(ctx context.Context, name reflector.SpanName, attrs ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
	ctx, span := t.tracer.Start(ctx, "nodewatch."+string(name), trace.WithAttributes(attributes(attrs)...))
	return ctx, func(err error, attrs ...slog.Attr) {
		span.SetAttributes(attributes(attrs)...)
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

func attributes(attrs []slog.Attr) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(attrs))
	for i, a := range attrs {
		key := attribute.Key("nodewatch." + a.Key)
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindInt64:
			all[i] = key.Int64(v.Int64())
		case slog.KindUint64:
			all[i] = key.Int64(int64(min(v.Uint64(), math.MaxInt64)))
		case slog.KindBool:
			all[i] = key.Bool(v.Bool())
		case slog.KindFloat64:
			all[i] = key.Float64(v.Float64())
		case slog.KindDuration:
			all[i] = key.Float64(v.Duration().Seconds())
		default:
			all[i] = key.String(v.String())
		}
	}
	return all
}

var _ reflector.Tracer = Tracer{}
