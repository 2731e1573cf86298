// Command grpc sends a Chain as a gRPC message, without a copy, to a server that sends it back.
package main

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/millrace-io/millrace"
)

type codec struct{}

func (codec) Name() string { return "chain" }
func (codec) Marshal(v any) (out mem.BufferSlice, err error) {
	for c := v.(*millrace.Chain); c.Len() > 0; {
		r := c.Pop()
		p := r.Bytes()
		if mem.IsBelowBufferPoolingThreshold(len(p)) { // too short for Put
			p = append([]byte(nil), p...)
			r.Release()
		}
		out = append(out, mem.NewBuffer(&p, share{r}))
	}
	return out, nil
}

// A share is a mem.BufferPool. grpc-go calls Put when it has sent the bytes.
type share struct{ millrace.Ref }

func (s share) Put(*[]byte)   { s.Release() }
func (share) Get(int) *[]byte { panic("not called") }

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	for _, b := range data {
		v.(*millrace.Chain).AppendCopy(b.ReadOnlyData()) // grpc-go uses its buffers again
	}
	return nil
}

func main() {
	l, _ := net.Listen("tcp", "localhost:0")
	echo := func(_ any, s grpc.ServerStream) error {
		var message millrace.Chain
		s.RecvMsg(&message)
		return s.SendMsg(&message)
	}
	go grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.UnknownServiceHandler(echo)).Serve(l)
	client, _ := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	var in, out millrace.Chain
	in.AppendCopy(make([]byte, 1<<20))
	err := client.Invoke(context.Background(), "/echo/Echo", &in, &out, grpc.ForceCodecV2(codec{}))
	fmt.Println(&out, err)
	out.Release()
}
