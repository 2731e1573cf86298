package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// wrkScript makes wrk print exact numbers after the last request. By default, wrk prints rounded
// numbers.
const wrkScript = `done = function(summary, latency, requests)
  io.write(string.format(
    '\nMEASURED {"requests":%d,"bytes":%d,"micros":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,"p99":%d}\n',
    summary.requests, summary.bytes, summary.duration, summary.errors.connect, summary.errors.read,
    summary.errors.write, summary.errors.status, summary.errors.timeout, latency:percentile(99)))
end
`

// wrkTimeout is the time after which wrk counts a request as timed out. With a hundred connections
// to a slow server, a response of 256 MiB takes most of a minute.
const wrkTimeout = 2 * time.Minute

type wrkResult struct {
	Requests int64 // completed requests
	Bytes    int64 // received bytes of all requests
	Micros   int64
	P99      int64 // 99th percentile of response times in µs; 0 if no request was completed

	Connect, Read, Write, Status, Timeout int64 // numbers of errors

	cpu time.Duration // CPU time of wrk itself
}

func (l wrkResult) errors() int64 { return l.Connect + l.Read + l.Write + l.Status + l.Timeout }

func checkWrk() error {
	_, err := measure.Find("wrk", "wrk")
	return err
}

// runWrk runs wrk against url. It writes wrkScript to dir.
func runWrk(ctx context.Context, dir, url string, conns, seconds int) (wrkResult, error) {
	script := filepath.Join(dir, "done.lua")
	if err := os.WriteFile(script, []byte(wrkScript), 0o644); err != nil {
		return wrkResult{}, err
	}
	cmd := exec.CommandContext(ctx, "wrk", fmt.Sprintf("-t%d", min(runtime.NumCPU(), conns)),
		fmt.Sprintf("-c%d", conns),
		fmt.Sprintf("-d%ds", seconds), "--timeout", fmt.Sprintf("%ds", int(wrkTimeout.Seconds())),
		"-s", script, url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return wrkResult{}, errors.Join(ctx.Err(), fmt.Errorf("files: wrk: %w\n%s", err, out))
	}
	l, err := parseWrk(out)
	l.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return l, err
}

func parseWrk(out []byte) (l wrkResult, err error) {
	_, line, ok := bytes.Cut(out, []byte("MEASURED "))
	if !ok {
		return wrkResult{}, fmt.Errorf("files: wrk has not said what it measured:\n%s", out)
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if err := json.Unmarshal(line, &l); err != nil {
		return wrkResult{}, fmt.Errorf("files: wrk says %q: %w", line, err)
	}
	return l, nil
}
