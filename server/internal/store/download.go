package store

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// A download is sent in steps. If the client does not accept a step within the stall timeout,
	// the download fails. Within the same time, the client must also accept the bytes of earlier
	// steps that are still in the kernel's buffers.
	//
	// Write uses steps of writeStep bytes. ReadFrom uses larger steps of readFromStep bytes,
	// because each step of ReadFrom costs a system call (sendfile or splice).
	writeStep    = 16 << 10
	readFromStep = 256 << 10

	copyStep = 32 << 10 // bytes to read at a time for Write

	// All downloads together may use 1/downloadsShare of the memory budget.
	downloadsShare = 4
	// A download that makes no progress for downloadAfter may be ended to make room for a new one.
	downloadAfter = 10 * time.Second
)

// DownloadConfig configures the limits of downloads.
type DownloadConfig struct {
	Max          int           // maximum number of concurrent downloads; others get status 503
	StallTimeout time.Duration // a client must accept some data within this time
	Unsent       int           // limit for unsent bytes of a download in the kernel
	Log          *slog.Logger
}

// downloads limits and counts downloads, either of files or of blobs.
type downloads struct {
	*limit.Limiter                // limits the concurrent downloads
	things         string         // "files" or "blobs", for messages
	blocks         *millrace.Pool // account of the memory blocks for copies
	stalled        atomic.Int64   // downloads that ended because the client accepted no data

	budget *answer.Budget
	log    *slog.Logger
	stall  time.Duration
	unsent int
}

func newDownloads(things string, cfg DownloadConfig, budget *answer.Budget) *downloads {
	return &downloads{
		Limiter: limit.New(cfg.Max, tooMany(things, "sent", cfg.Max, "downloads"),
			refuse.ErrShutdown),
		things: things, blocks: millrace.DefaultPool().Account(),
		budget: budget, log: cfg.Log, stall: cfg.StallTimeout, unsent: cfg.Unsent,
	}
}

func (d *downloads) setLimit(n int) { d.SetLimit(n, tooMany(d.things, "sent", n, "downloads")) }

// acquire admits a download, or returns an error. The caller must call Release at the end of the
// download.
func (d *downloads) acquire() error { return d.admit(d.Limiter) }

// admit admits a transfer, or returns an error. The caller must call l.Release at the end of the
// transfer.
func (d *downloads) admit(l *limit.Limiter) error {
	if err := d.budget.Memory.Admit(); err != nil {
		return err
	}
	return l.Acquire()
}

// A progressResponse is a response that fails if the client accepts no data for some time. The
// complete response has no time limit.
type progressResponse struct {
	http.ResponseWriter
	blocks  *millrace.Pool
	ctx     context.Context
	account *address.Account // account of the client's address
	loan    memory.Loan      // memory of the download
	limit   time.Duration
	due     time.Time // write deadline; zero before the first write
	stalled bool      // the client has not accepted a step in time
}

// Unwrap returns the wrapped response, for http.ResponseController.
func (p *progressResponse) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// extend sets the write deadline to one stall timeout from now. If the deadline was set a short
// time ago, extend does nothing. This saves work over HTTP/2, where net/http sends a message to
// another goroutine for each new deadline.
func (p *progressResponse) extend() {
	if !p.loan.Renew() {
		return // the download was ended to make room
	}
	due := time.Now().Add(p.limit)
	if due.Sub(p.due) > p.limit/8 {
		p.due = due
		_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(due)
	}
}

func (p *progressResponse) ended(err error) {
	p.stalled = p.stalled || err != nil && !time.Now().Before(p.due)
}

// Write sends b to the client in steps. If the client does not accept a step in time, Write fails.
func (p *progressResponse) Write(b []byte) (n int, err error) {
	for {
		step := b[n:min(len(b), n+writeStep)]
		p.account.Pace(p.ctx, int64(len(step)))
		p.extend()
		m, err := p.ResponseWriter.Write(step)
		n += m
		if err != nil || n == len(b) {
			p.ended(err)
			return n, err
		}
	}
}

// ReadFrom copies src to the response in steps. Each step needs an io.LimitedReader, because
// sendfile and splice require one.
func (p *progressResponse) ReadFrom(src io.Reader) (total int64, err error) {
	rf, ok := p.ResponseWriter.(io.ReaderFrom)
	if !ok {
		block := p.blocks.Get(copyStep)
		defer block.Release()
		return io.CopyBuffer(struct{ io.Writer }{p}, struct{ io.Reader }{src}, block.Bytes())
	}
	whole, ok := src.(*io.LimitedReader)
	if !ok {
		whole = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	for whole.N > 0 {
		p.account.Pace(p.ctx, min(whole.N, readFromStep))
		p.extend()
		step := io.LimitedReader{R: whole.R, N: min(whole.N, readFromStep)}
		asked := step.N
		n, err := rf.ReadFrom(&step)
		total += n
		whole.N -= asked - step.N
		if err != nil || n < asked {
			p.ended(err)
			return total, err
		}
	}
	return total, nil
}

// begin returns the response for a download. The caller must call end after the download. If there
// is no memory for another download, begin returns a *[refuse.Refusal], and the caller must not
// call end.
//
// begin also limits the unsent bytes in the socket's buffer, which could otherwise hold megabytes.
// When the buffer is full, the kernel accepts more bytes only after it has sent a third of the
// buffer. If the buffer is large and the connection is slow, sending this third may take longer
// than the stall timeout.
func (d *downloads) begin(w http.ResponseWriter, r *http.Request) (*progressResponse, error) {
	holds, limit := int64(answer.RequestBytes), int64(0)
	if !kernelSends(r) {
		holds += copyStep
	}
	if m := d.budget.Memory; m != nil {
		limit = m.Limit() / downloadsShare
	}
	control := http.NewResponseController(w)
	end := func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) }
	p := &progressResponse{
		ResponseWriter: w, blocks: d.blocks, limit: d.stall, ctx: r.Context(),
		account: address.Of(r.Context()),
	}
	if err := d.budget.Downloads.AddWithin(&p.loan, limit, downloadAfter, holds,
		end); err != nil {
		return nil, err
	}
	answer.Of(r).GiveBack()
	tcpconn.BoundUnsent(downloadConn(r), d.unsent)
	return p, nil
}

// end ends a download. If the client has accepted no data for too long, end logs and counts the
// stalled download, and makes the kernel discard the unsent bytes.
func (d *downloads) end(p *progressResponse, r *http.Request) {
	p.loan.Done()
	if !p.stalled {
		return
	}
	d.stalled.Add(1)
	d.log.Info("download ended", "client", r.RemoteAddr, "path", r.URL.Path,
		"reason", "the client took nothing for --stall-timeout")
	if tcp := downloadConn(r); tcp != nil {
		_ = tcp.SetLinger(0)
	}
}

// downloadConn returns the TCP connection of r. It returns nil if other requests may share the
// connection, or if it is not a TCP connection.
func downloadConn(r *http.Request) *net.TCPConn {
	c := tcpconn.FromContext(r.Context())
	if c == nil || r.ProtoMajor != 1 {
		return nil
	}
	return tcpconn.Of(c)
}

// kernelSends reports whether the kernel can send a file in response to r. That requires HTTP/1
// without TLS.
func kernelSends(r *http.Request) bool { return r.TLS == nil && r.ProtoMajor == 1 }

// tooMany returns a refusal such as "9 files are being sent already, as many as --max-downloads
// allows".
func tooMany(noun, participle string, limit int, flag string) error {
	return refuse.New(http.StatusServiceUnavailable,
		"%d %s are being %s already, as many as --max-%s allows", limit, noun, participle, flag).
		For(refuse.Limit).After(time.Second)
}
