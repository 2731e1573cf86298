package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
)

// clientBlock is what a client reads at a time: large, so that the clients are not what is measured.
const clientBlock = 256 << 10

// A client downloads one file again and again, on one connection.
type client struct {
	conn    net.Conn
	r       *bufio.Reader
	request []byte
	block   []byte
	size    int64
	audit   func(p []byte) // of a test
}

func dial(ctx context.Context, addr, name string, size int64, audit func([]byte)) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{
		conn: conn, r: bufio.NewReader(conn), block: make([]byte, clientBlock), size: size, audit: audit,
		request: fmt.Appendf(nil, "GET /%s HTTP/1.1\r\nHost: %s\r\n\r\n", name, addr),
	}, nil
}

// fetch downloads the file once. A response with another length is an error.
func (c *client) fetch() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", resp.Status)
	}
	var got int64
	for {
		n, err := resp.Body.Read(c.block)
		got += int64(n)
		if c.audit != nil {
			c.audit(c.block[:n])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if got != c.size {
		return fmt.Errorf("the server sent %d bytes of %d", got, c.size)
	}
	return nil
}

// A downloads is many clients of one server.
type downloads struct {
	clients []*client
	record  *observe.Latencies // of each request; may be nil
}

// fetched is what the clients got in a while.
type fetched struct {
	requests int64
	took     time.Duration
}

// openDownloads dials, and downloads the file once with each client, so that connections have grown their windows.
func openDownloads(ctx context.Context, addr, name string, size int64, clients int, audit func([]byte)) (*downloads, error) {
	d := new(downloads)
	for range clients {
		c, err := dial(ctx, addr, name, size, audit)
		if err == nil {
			d.clients = append(d.clients, c)
			err = c.fetch()
		}
		if err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *downloads) close() {
	for _, c := range d.clients {
		_ = c.conn.Close()
	}
}

// fetch downloads for about t, or until ctx ends. A download that has begun is finished.
func (d *downloads) fetch(ctx context.Context, t time.Duration) (fetched, error) {
	defer onEnd(ctx, d.close)()
	began := time.Now()
	var wg sync.WaitGroup
	requests := make([]int64, len(d.clients))
	errs := make([]error, len(d.clients))
	for i, c := range d.clients {
		wg.Go(func() {
			for at := began; at.Sub(began) < t; requests[i]++ {
				if errs[i] = c.fetch(); errs[i] != nil {
					if d.record != nil {
						d.record.Fail()
					}
					return
				}
				now := time.Now()
				if d.record != nil {
					d.record.Record(now.Sub(at), c.size)
				}
				at = now
			}
		})
	}
	wg.Wait()
	f := fetched{took: time.Since(began)}
	for i := range d.clients {
		f.requests += requests[i]
		if errs[i] != nil {
			return f, errs[i]
		}
	}
	return f, nil
}
