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
	// writeStep and readFromStep are the number of bytes that a client must accept within the stall
	// timeout, in addition to the kernel's buffers. writeStep is for Write. readFromStep is for
	// sendfile and splice, and is larger because each step costs a system call.
	writeStep    = 16 << 10
	readFromStep = 256 << 10

	copyStep = 32 << 10 // bytes read at a time when Write must send them

	// downloadsShare determines how much memory downloads may hold: the memory budget divided by
	// downloadsShare.
	downloadsShare = 4
	// downloadAfter is how long one step of a download may take. If a step takes longer, the
	// download may be ended to make room for a new one.
	downloadAfter = 10 * time.Second
)

// DownloadConfig configures the limits of downloads.
type DownloadConfig struct {
	Max          int           // maximum number of concurrent downloads; others get status 503
	StallTimeout time.Duration // time in which a client must accept some data
	Unsent       int           // bytes that the kernel may hold unsent for a download
	Log          *slog.Logger
}

// downloads limits and counts the downloads of files or of blobs.
type downloads struct {
	*limit.Limiter                // limits the requests that are being answered
	things         string         // the downloads' name in messages: "files" or "blobs"
	blocks         *millrace.Pool // account of the memory blocks for copies
	stalled        atomic.Int64   // number of downloads ended because the client accepted no data

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

// acquire admits a download, or returns the reason for refusing it. An admitted download must call
// Release at its end.
func (d *downloads) acquire() error { return d.admit(d.Limiter) }

// admit admits a transfer, or returns the reason for refusing it. An admitted transfer must call
// l.Release at its end.
func (d *downloads) admit(l *limit.Limiter) error {
	if err := d.budget.Memory.Admit(); err != nil {
		return err
	}
	return l.Acquire()
}

// A progressResponse is a response with a write deadline that advances as the client accepts data.
// Its total duration is not limited.
type progressResponse struct {
	http.ResponseWriter
	blocks  *millrace.Pool
	ctx     context.Context
	account *address.Account // account of the client's address
	loan    *memory.Loan     // memory that the download holds
	limit   time.Duration
	due     time.Time // the write deadline; zero before the first step
	stalled bool      // whether a step did not end in time
}

// Unwrap returns the wrapped response, for http.ResponseController.
func (p *progressResponse) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// extend moves the write deadline to the end of a new stall timeout. If the deadline was moved
// shortly before, extend leaves it, because over HTTP/2 setting it costs a message.
func (p *progressResponse) extend() {
	if !p.loan.Renew() {
		return // the download was ended to make room; its deadline has passed
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

// Write implements io.Writer.
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

// ReadFrom copies src to the response in steps. Each step has its own io.LimitedReader, because
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

// begin returns the response that the download is written to. If other downloads hold all the
// memory of downloads, begin returns a [refuse.Refusal]. Otherwise the caller must call end. begin
// limits the bytes that the kernel holds unsent. Without that limit, the socket would have a buffer
// of megabytes. It would accept more bytes only when a third of the buffer is free, which a slow
// client may not reach within the stall timeout. Copies use memory of d.blocks.
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
	loan, err := d.budget.Downloads.AddWithin(limit, downloadAfter, holds, end)
	if err != nil {
		return nil, err
	}
	answer.Of(r).GiveBack()
	tcpconn.BoundUnsent(downloadConn(r), d.unsent)
	return &progressResponse{
		ResponseWriter: w, blocks: d.blocks, loan: loan, limit: d.stall, ctx: r.Context(),
		account: address.Of(r.Context()),
	}, nil
}

// end ends a download. If its client stalled, end also logs and counts the download, and makes the
// kernel discard the bytes that it has not sent.
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

// downloadConn returns the TCP connection on which r arrived. It returns nil if other requests
// share the connection, or if it is not TCP.
func downloadConn(r *http.Request) *net.TCPConn {
	c := tcpconn.FromContext(r.Context())
	if c == nil || r.ProtoMajor != 1 {
		return nil
	}
	return tcpconn.Of(c)
}

// kernelSends reports whether the request arrived over HTTP/1 without TLS. Only then can the kernel
// send a file.
func kernelSends(r *http.Request) bool { return r.TLS == nil && r.ProtoMajor == 1 }

// tooMany returns the refusal of a transfer above the limit. things and done describe the
// transfers, and flag names the limit.
func tooMany(things, done string, limit int, flag string) error {
	return refuse.New(http.StatusServiceUnavailable,
		"%d %s are being %s already, as many as --max-%s allows", limit, things, done, flag).
		For(refuse.Limit).After(time.Second)
}
