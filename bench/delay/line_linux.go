package delay

import (
	"io"
	"time"
)

// queued is how many packets may be under way each way: more than a line with a window of 64 MiB has.
const queued = 1 << 16

// A Line is two hosts that are each other's only neighbour.
type Line struct {
	Server, Client *Host
}

// NewLine joins two hosts. A packet takes half of rtt each way. It needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, and ip(8).
func NewLine(rtt time.Duration) (*Line, error) {
	server, err := newHost("10.8.0.1", "10.8.0.2")
	if err != nil {
		return nil, err
	}
	client, err := newHost("10.8.0.2", "10.8.0.1")
	if err != nil {
		server.close()
		return nil, err
	}
	go carry(client.end, server.end, rtt/2)
	go carry(server.end, client.end, rtt/2)
	return &Line{Server: server, Client: client}, nil
}

// Close takes both hosts away. Connections between them hang from then on.
func (l *Line) Close() {
	l.Server.close()
	l.Client.close()
}

// A packet is under way.
type packet struct {
	arrives time.Time
	data    []byte
}

// carry takes packets from one device to the other until either is closed.
func carry(to io.Writer, from io.Reader, takes time.Duration) {
	line := make(chan packet, queued)
	go func() {
		defer close(line)
		buf := make([]byte, 1<<16)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			line <- packet{time.Now().Add(takes), append([]byte(nil), buf[:n]...)}
		}
	}()
	for p := range line {
		time.Sleep(time.Until(p.arrives))
		_, _ = to.Write(p.data) // what has no room is lost, as on any line
	}
}
