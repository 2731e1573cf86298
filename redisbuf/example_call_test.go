package redisbuf_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/redisbuf"
)

// tracer and span have methods like trace.Tracer and trace.Span of OpenTelemetry.
type (
	tracer interface {
		Start(ctx context.Context, name string) (context.Context, span)
	}
	span interface {
		SetAttribute(name string, value any)
		RecordError(err error)
		End()
	}
)

// Each call is a span, whose attributes have the names that OpenTelemetry specifies. The span of
// ctx is its parent.
func ExampleOnCall() {
	var t tracer // otel.Tracer("redis")
	start := func(ctx context.Context, call redisbuf.CallInfo) func(redisbuf.CallResult) {
		_, s := t.Start(ctx, call.Op)
		s.SetAttribute("db.system.name", "redis")
		s.SetAttribute("db.operation.name", call.Op)
		if len(call.Keys) > 1 {
			s.SetAttribute("db.operation.batch.size", len(call.Keys))
		}
		return func(r redisbuf.CallResult) {
			s.SetAttribute("server.address", r.Addr)
			s.SetAttribute("redis.bytes", r.Bytes)
			s.SetAttribute("redis.retries", r.Retries)
			if r.Err != nil && r.Err != redis.Nil {
				s.RecordError(r.Err)
			}
			s.End()
		}
	}
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	c, err := redisbuf.New(rdb, redisbuf.OnCall(start))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}
