package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

// Law fits the CPU time of millrace serve to the law
//
//	CPU = a × writes + b × bytes + c × wake-ups
//
// over TCP and over TLS. A write is one batch for one viewer. At a wake-up, a publisher is read and
// its frames are published: over TCP at every beat of --latency, over TLS for each frame.
var Law = &measure.Program{
	Name: "law", What: "what a write, a byte and a wake-up cost millrace serve", Rounds: 3,
	Brief: []string{"-rounds", "1"},
	Parts: []string{"tcp", "tls"},
	Run:   runLaw,
}

// A lawCase is one load of the sweep.
type lawCase struct {
	testCase
	bound   time.Duration
	bitRate int // of each stream, in bits per second
}

func (c lawCase) String() string {
	return fmt.Sprintf("%v, %v, %.2f Mbit/s", c.testCase, c.bound, float64(c.bitRate)/1e6)
}

// lawCases vary writes, bytes and wake-ups independently of each other.
var lawCases = []lawCase{
	{testCase{1, 200}, 50 * time.Millisecond, 2_150_000},
	{testCase{1, 200}, 100 * time.Millisecond, 2_150_000},
	{testCase{1, 200}, 200 * time.Millisecond, 2_150_000},
	{testCase{1, 400}, 50 * time.Millisecond, 500_000},
	{testCase{1, 100}, 50 * time.Millisecond, 8_000_000},
	{testCase{1, 100}, 200 * time.Millisecond, 8_000_000},
	{testCase{10, 20}, 50 * time.Millisecond, 1_000_000},
	{testCase{50, 4}, 50 * time.Millisecond, 2_150_000},
	{testCase{50, 4}, 200 * time.Millisecond, 2_150_000},
	{testCase{100, 1}, 50 * time.Millisecond, 1_000_000},
}

const lawTime = 5 * time.Second // measured of each turn

func runLaw(ctx context.Context, p *measure.Params) error {
	dir, err := os.MkdirTemp("", "bench-law-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err := measure.Build(ctx, dir, measure.Millrace)
	if err != nil {
		return err
	}
	sum := measure.NewTable("relay-law", "The law of millrace serve: CPU = a x writes + b x bytes + c x wake-ups",
		"viewers over", "a, µs a write", "b, s/GB", "c, µs a wake-up", "largest error, %",
		"viewers at 50 ms", "at 100 ms", "at 200 ms")
	sum.Note = fmt.Sprintf("Viewers: of one stream of 2.15 Mbit/s, with %d CPUs busy. "+
		"A publisher with more than 48 KiB a beat is woken twice.", runtime.NumCPU())
	for _, part := range []string{"tcp", "tls"} {
		if !p.Wants(part) {
			continue
		}
		var config *tls.Config
		args := []string{}
		if part == "tls" {
			if config, args, err = certificateFiles(dir); err != nil {
				return err
			}
		}
		if err := sweep(ctx, p, part, bin, args, config, sum); err != nil {
			return err
		}
	}
	return p.Add(sum)
}

// certificateFiles writes a certificate and its key to dir. It returns the client's configuration
// and the server's flags.
func certificateFiles(dir string) (*tls.Config, []string, error) {
	s := httptest.NewTLSServer(nil) // for its certificate
	defer s.Close()
	cert := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	var args []string
	for _, file := range []struct {
		flag, kind string
		der        []byte
	}{{"--tls-cert", "CERTIFICATE", cert.Certificate[0]}, {"--tls-key", "PRIVATE KEY", key}} {
		path := filepath.Join(dir, file.kind+".pem")
		data := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return nil, nil, err
		}
		args = append(args, file.flag, path)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{RootCAs: roots}, args, nil
}

// sweep measures every case, fits the law, and adds a row to sum.
func sweep(ctx context.Context, p *measure.Params, part, bin string, args []string,
	config *tls.Config, sum *measure.Table) error {
	cpu := make([]measure.Series, len(lawCases)) // seconds per second
	rates := make([]measure.Series, len(lawCases))
	err := measure.Rounds(ctx, len(lawCases), p.Rounds, func(round, i int) error {
		r, err := lawCases[i].take(ctx, bin, args, config)
		if err != nil {
			return fmt.Errorf("%s, %v: %w", part, lawCases[i], err)
		}
		cpu[i] = append(cpu[i], usage(r).CPU.Seconds()/r.Measured.Seconds())
		rates[i] = append(rates[i], float64(r.Bytes)/r.Measured.Seconds())
		p.Logf("law: round %d, %s, %v: %.3f CPU s/s", round+1, part, lawCases[i], cpu[i][round])
		return nil
	})
	if err != nil {
		return err
	}
	fit := fitLaw(cpu, rates, config != nil)
	t := measure.NewTable("relay-law-"+part, "millrace serve over "+part+": measured, and by the law",
		"streams x viewers, bound, rate", "CPU s/GB", "by the law", "error, %")
	t.Bar = 1
	worst := 0.0
	for i, c := range lawCases {
		perGB := cpu[i].Over(rates[i]).Times(1e9)
		law := fit.cpu(c.terms(rates[i].Median(), config != nil)) / rates[i].Median() * 1e9
		off := 100 * (law/perGB.Median() - 1)
		worst = max(worst, math.Abs(off))
		t.Row(c.String(), perGB, law, off)
	}
	if err := p.Add(t); err != nil {
		return err
	}
	row := []any{part, fit[0] * 1e6, fit[1] * 1e9, fit[2] * 1e6, worst}
	for _, bound := range []time.Duration{50, 100, 200} {
		row = append(row, fit.viewers(bound*time.Millisecond, 2_150_000))
	}
	sum.Row(row...)
	return nil
}

// take measures millrace serve with the given flags under the load of c.
func (c lawCase) take(ctx context.Context, bin string, args []string,
	config *tls.Config) (load.Report, error) {
	addr, err := measure.FreeAddr()
	if err != nil {
		return load.Report{}, err
	}
	args = append([]string{"serve", "--listen", addr, "--rtmp", "", "--latency", c.bound.String(),
		"--log-level", "error"}, args...)
	s, err := measure.StartServer(ctx, addr, exec.Command(bin, args...))
	if err != nil {
		return load.Report{}, err
	}
	defer s.Stop()
	cfg := load.Config{URL: "http://" + addr, Streams: c.streams, Viewers: c.viewers,
		BitRate: c.bitRate, Ramp: time.Second, Settle: time.Second, Duration: lawTime,
		ServerPIDs: s.PIDs}
	if config != nil {
		cfg.Dial = (&tls.Dialer{NetDialer: new(net.Dialer), Config: config}).DialContext
	}
	r, err := load.Run(ctx, cfg, nil)
	if err == nil {
		err = ctx.Err() // an interrupted turn has no result
	}
	return r, err
}

// lawFrames is the number of frames per second of a stream of package load.
const lawFrames = 30 + 44_100/1024.0

// terms returns the writes, the bytes and the wake-ups of one second. rate is the number of bytes
// that all viewers receive per second.
func (c lawCase) terms(rate float64, overTLS bool) [3]float64 {
	beats := float64(c.streams) / c.bound.Seconds()
	wakeUps := beats
	if overTLS {
		wakeUps = float64(c.streams) * lawFrames
	}
	return [3]float64{beats * float64(c.viewers), rate, wakeUps}
}

// A law has the CPU seconds per write, per byte and per wake-up.
type law [3]float64

func (l law) cpu(terms [3]float64) (seconds float64) {
	for i, n := range terms {
		seconds += l[i] * n
	}
	return seconds
}

// viewers returns the number of viewers of one stream that keep all CPUs busy. bitRate is in bits
// per second. The wake-ups of one stream do not count, because they cost less than 0.01 CPU.
func (l law) viewers(bound time.Duration, bitRate float64) float64 {
	return math.Floor(float64(runtime.NumCPU()) / (l[0]/bound.Seconds() + l[1]*bitRate/8))
}

// fitLaw returns the law with the smallest sum of squared relative errors. cpu and rates have the
// measured values of each of lawCases, in CPU seconds and bytes per second.
func fitLaw(cpu, rates []measure.Series, overTLS bool) law {
	var m [3][4]float64 // the normal equations
	for i, c := range lawCases {
		terms := c.terms(rates[i].Median(), overTLS)
		for k := range terms {
			terms[k] /= cpu[i].Median()
		}
		for j := range 3 {
			for k := range 3 {
				m[j][k] += terms[j] * terms[k]
			}
			m[j][3] += terms[j]
		}
	}
	for j := range 3 { // Gauss-Jordan elimination; the matrix is positive definite
		for k := range 3 {
			if k == j {
				continue
			}
			f := m[k][j] / m[j][j]
			for n := range 4 {
				m[k][n] -= f * m[j][n]
			}
		}
	}
	return law{m[0][3] / m[0][0], m[1][3] / m[1][1], m[2][3] / m[2][2]}
}
