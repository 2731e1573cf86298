// Package websocket compares ways to send each message to many WebSocket clients: broadcast.Ring
// with frame/websocket, and the Broadcaster of gws. Each server is a child process. The clients in
// this process check that every message arrives in time.
package websocket

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lxzan/gws"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/websocket"
)

// Program is the WebSocket benchmark. It produces one table.
var Program = &measure.Program{
	Name: "websocket", What: "messages to many WebSocket clients", Rounds: 5,
	Brief: []string{"-rounds", "3", "-seconds", "2"},
	Flags: func(f *flag.FlagSet) {
		f.IntVar(&clients, "clients", 1000, "clients")
		f.IntVar(&rate, "rate", 500, "messages a second")
		f.IntVar(&size, "size", 1024, "length of a message in bytes; at least 8")
		f.IntVar(&seconds, "seconds", 5, "length of a turn")
	},
	Run: run,
}

var clients, rate, size, seconds int

// bound is the latency with which one of the millrace servers is configured.
const bound = 20 * time.Millisecond

type server interface {
	http.Handler
	send(message []byte) error
	clients() int // number of clients that get the next message
}

type contender struct {
	name string
	open func() server
}

// Ratios are relative to the first contender.
var contenders = []contender{
	{"gws Broadcaster", func() server { return newGWS() }},
	{"millrace, at once", func() server { return newRing(0) }},
	{"millrace, within 20 ms", func() server { return newRing(bound) }},
}

type ringServer struct{ ring *broadcast.Ring }

// keyEvery is the number of messages between key frames. A client that falls too far behind
// continues at a key frame.
const keyEvery = 100

func newRing(latency time.Duration) *ringServer {
	return &ringServer{broadcast.New(broadcast.Latency(latency), broadcast.MaxBytes(64<<20))}
}

func (s *ringServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	cursor := s.ring.Cursor(broadcast.FromHead())
	go func() {
		defer conn.NetConn().Close()
		var out millrace.Chain
		for {
			if _, err := cursor.Next(context.Background(), &out); err != nil {
				return
			}
			if err := conn.WriteFrames(&out); err != nil {
				return
			}
		}
	}()
	var c millrace.Chain
	for {
		if _, err := conn.Next(&c); err != nil {
			cursor.Close()
			return
		}
		c.Release()
	}
}

func (s *ringServer) clients() int { return s.ring.Stats().Cursors }

func (s *ringServer) send(message []byte) error {
	var frames, payload millrace.Chain
	payload.AppendCopy(message)
	websocket.AppendMessage(&frames, websocket.Binary, &payload)
	key := s.ring.Stats().Frames%keyEvery == 0
	return s.ring.Publish(&frames, broadcast.Frame{Key: key})
}

// A gwsServer sends messages with the Broadcaster of gws, as its documentation shows.
type gwsServer struct {
	gws.BuiltinEventHandler
	upgrader *gws.Upgrader

	mu      sync.Mutex
	sockets []*gws.Conn
}

func newGWS() *gwsServer {
	s := &gwsServer{}
	s.upgrader = gws.NewUpgrader(s, nil)
	return s
}

func (s *gwsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	socket, err := s.upgrader.Upgrade(w, r)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.sockets = append(s.sockets, socket)
	s.mu.Unlock()
	go socket.ReadLoop()
}

func (s *gwsServer) clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sockets)
}

func (s *gwsServer) send(message []byte) error {
	b := gws.NewBroadcaster(gws.OpcodeBinary, slices.Clone(message))
	defer b.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, socket := range s.sockets {
		if err := b.Broadcast(socket); err != nil {
			return err
		}
	}
	return nil
}

// child is a child process that runs a server. It prints the address of the server. On the command
// "wait C", it waits until the server has C clients. On the command "send N R S", it sends N
// messages of S bytes, at R messages per second. After each command, it prints the CPU time of the
// process in nanoseconds.
var child = measure.RegisterChild("websocket-server", func(args []string) error {
	i, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	s := contenders[i].open()
	go http.Serve(l, s)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var n, rate, size int
		if _, err := fmt.Sscanf(in.Text(), "wait %d", &n); err == nil {
			for s.clients() < n {
				time.Sleep(time.Millisecond)
			}
		} else if _, err := fmt.Sscanf(in.Text(), "send %d %d %d", &n, &rate, &size); err == nil {
			if err := sendAll(s, n, rate, size); err != nil {
				return err
			}
		}
		fmt.Println(measure.CPU().Nanoseconds())
	}
	return nil
})

func sendAll(s server, n, rate, size int) error {
	message := make([]byte, size)
	start := time.Now()
	for i := range n {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		binary.BigEndian.PutUint64(message, uint64(time.Now().UnixNano()))
		if err := s.send(message); err != nil {
			return err
		}
	}
	return nil
}

// turn measures contender i while each client receives n messages. It returns the server's CPU time
// per message and client in ns, and the delays of one client's messages in ms.
func turn(ctx context.Context, i, n int) (cpu float64, delays []float64, err error) {
	addr, server, err := measure.StartPeer(child, strconv.Itoa(i))
	if err != nil {
		return 0, nil, err
	}
	defer server.Close()
	conns := make([]net.Conn, clients)
	for j := range conns {
		if conns[j], err = dial(addr); err != nil {
			return 0, nil, err
		}
		defer conns[j].Close()
		conns[j].SetDeadline(time.Now().Add(time.Minute))
	}
	stop := context.AfterFunc(ctx, func() { server.Kill() })
	defer stop()
	before, err := server.Ask(fmt.Sprint("wait ", clients)) // servers may add clients late
	if err != nil {
		return 0, nil, err
	}
	errs := make([]error, clients)
	var receivers sync.WaitGroup
	for j, conn := range conns {
		receivers.Go(func() {
			if j == 0 {
				delays, errs[j] = receiveTimed(conn, n)
			} else {
				errs[j] = counted(conn, n)
			}
		})
	}
	if _, err := server.Ask(fmt.Sprintf("send %d %d %d", n, rate, size)); err != nil {
		return 0, nil, err
	}
	receivers.Wait()
	after, err := server.Ask("cpu")
	if err = errors.Join(append(errs, err)...); err != nil {
		return 0, nil, err
	}
	a, _ := strconv.Atoi(strings.TrimSpace(before))
	b, _ := strconv.Atoi(strings.TrimSpace(after))
	return float64(b-a) / float64(n*clients), delays, nil
}

func dial(addr string) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	end := []byte("\r\n\r\n")
	for have, b := 0, make([]byte, 1); have < len(end); { // byte by byte, so that no frame is read
		if _, err := io.ReadFull(conn, b); err != nil {
			conn.Close()
			return nil, fmt.Errorf("the handshake failed: %w", err)
		}
		if b[0] == end[have] {
			have++
		} else {
			have = 0
		}
	}
	return conn, nil
}

// frameSize returns the length of a message, including its header.
func frameSize() int64 {
	switch {
	case size < 126:
		return int64(2 + size)
	case size < 1<<16:
		return int64(4 + size)
	}
	return int64(10 + size)
}

func counted(conn net.Conn, n int) error {
	_, err := io.CopyN(io.Discard, conn, int64(n)*frameSize())
	return err
}

// receiveTimed receives n messages and returns their delays in ms.
func receiveTimed(conn net.Conn, n int) (delays []float64, err error) {
	r := bufio.NewReaderSize(conn, 64<<10)
	b := make([]byte, frameSize())
	for range n {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		sent := int64(binary.BigEndian.Uint64(b[len(b)-size:]))
		delays = append(delays, float64(time.Now().UnixNano()-sent)/1e6)
	}
	return delays, nil
}

func run(ctx context.Context, p *measure.Params) error {
	n := rate * seconds
	p.Logf("websocket: %d clients, %d messages a second of %d bytes", clients, rate, size)
	cpu := make([]measure.Series, len(contenders))
	p50 := make([]measure.Series, len(contenders))
	p99 := make([]measure.Series, len(contenders))
	err := measure.Rounds(ctx, len(contenders), p.Rounds, func(_, i int) error {
		c, delays, err := turn(ctx, i, n)
		if err != nil {
			return fmt.Errorf("%s: %w", contenders[i].name, err)
		}
		slices.Sort(delays)
		cpu[i] = append(cpu[i], c)
		p50[i] = append(p50[i], delays[len(delays)/2])
		p99[i] = append(p99[i], delays[len(delays)*99/100])
		return nil
	})
	if err != nil {
		return err
	}
	t := measure.NewTable(fmt.Sprintf("websocket-%dx%d", clients, rate),
		fmt.Sprintf("%d WebSocket clients, %d messages a second of %d bytes", clients, rate, size),
		"server", "CPU ns a message and client", "x gws", "delay p50, ms", "delay p99, ms")
	t.Bar = 1
	t.Note = "The clients run on the same machine. Delays include the time in which they wait for a CPU."
	for i, c := range contenders {
		t.Row(c.name, cpu[i], cpu[i].Over(cpu[0]), p50[i].Median(), p99[i].Median())
	}
	return p.Add(t)
}
