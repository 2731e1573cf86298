// Package upload measures the memory of parallel uploads of unknown length. A program forwards each
// stream in parts. It keeps each part until the part is sent, for a possible retry.
//
// Each contender runs in its own process, because the kernel reports a process's peak memory.
package upload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/chunk"
)

// Program is the upload benchmark.
var Program = &measure.Program{
	Name: "upload", What: "the memory of uploads of unknown length in parts", Rounds: 5,
	Brief: []string{"-rounds", "3", "-mib", "256"},
	Flags: func(f *flag.FlagSet) {
		f.IntVar(&mib, "mib", 1024, "length of a stream in MiB")
		f.IntVar(&streams, "streams", 8, "number of parallel streams")
	},
	Run: run,
}

var mib, streams int

const partSize = 8 << 20

// A contender reads src to its end and writes it to dst in parts.
type contender struct {
	name  string
	relay func(src, dst net.Conn) error
}

// spool is for the contender millrace.Spool. It allows one part in memory for each stream.
var spool *millrace.Spool

// Ratios are relative to the first contender.
var contenders = []contender{
	{"a bytes.Buffer a part", func(src, dst net.Conn) error {
		for {
			var part bytes.Buffer
			n, err := part.ReadFrom(io.LimitReader(src, partSize))
			if n == 0 || err != nil {
				return err
			}
			if _, err := io.Copy(dst, bytes.NewReader(part.Bytes())); err != nil {
				return err
			}
		}
	}},
	{"a []byte of 8 MiB a stream, used again", func(src, dst net.Conn) error {
		part := make([]byte, partSize)
		for {
			n, err := io.ReadFull(src, part)
			if n == 0 {
				return nil
			}
			if err != nil && err != io.ErrUnexpectedEOF {
				return err
			}
			if _, err := io.Copy(dst, bytes.NewReader(part[:n])); err != nil {
				return err
			}
		}
	}},
	{"millrace.Spool", func(src, dst net.Conn) error {
		r := millrace.NewReader(src)
		defer r.Release()
		for {
			part, err := spool.Next(context.Background(), r)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			_, err = io.Copy(dst, part)
			part.Close()
			if err != nil {
				return err
			}
		}
	}},
	{"a Chain of chunk.Reader's chunks of 1 MiB", func(src, dst net.Conn) error {
		r := chunk.NewReader(src, chunk.Size(1<<20))
		defer r.Close()
		var part millrace.Chain
		defer part.Release()
		for {
			c, err := r.Next(context.Background())
			ended := err == io.EOF
			if err != nil && !ended {
				return err
			}
			if part.Len()+c.Len() > partSize || ended {
				if _, err := part.WriteTo(dst); err != nil || ended {
					return err
				}
			}
			part.Append(&c)
		}
	}},
}

// uploader is a child process that runs a contender. Its arguments are the index of the contender,
// the address of the peer, the number of streams, and the length of a stream in bytes.
var uploader = measure.RegisterChild("upload-uploader", func(args []string) error {
	i, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	streams, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	spool = millrace.NewSpool(partSize, streams)
	var all errgroup.Group
	for range streams {
		all.Go(func() error {
			src, err := net.Dial("tcp", args[1])
			if err != nil {
				return err
			}
			defer src.Close()
			dst, err := net.Dial("tcp", args[1])
			if err != nil {
				return err
			}
			defer dst.Close()
			fmt.Fprintf(src, "send %s\n", args[3])
			fmt.Fprintf(dst, "receive %s\n", args[3])
			if err := contenders[i].relay(src, dst); err != nil {
				return err
			}
			dst.(*net.TCPConn).CloseWrite()
			reply, err := io.ReadAll(dst)
			if err == nil && string(reply) != "ok" {
				err = errors.New("upload: the peer did not receive the stream: " + string(reply))
			}
			return err
		})
	}
	return all.Wait()
})

// peer is a child process that sends streams, and checks the length of each received stream.
var peer = measure.RegisterChild("upload-peer", func([]string) error {
	return measure.Serve(serve)
})

func serve(c net.Conn) {
	in := bufio.NewReader(c)
	var order string
	var n int64
	if _, err := fmt.Fscanln(in, &order, &n); err != nil {
		return
	}
	if order == "send" {
		for b := make([]byte, 64<<10); n > 0; n -= int64(len(b)) {
			if _, err := c.Write(b[:min(n, int64(len(b)))]); err != nil {
				return
			}
		}
		return
	}
	if got, err := io.Copy(io.Discard, in); err != nil || got != n {
		fmt.Fprintf(c, "%d of %d bytes, %v", got, n, err)
		return
	}
	io.WriteString(c, "ok")
}

func run(ctx context.Context, p *measure.Params) error {
	addr, child, err := measure.StartPeer(peer)
	if err != nil {
		return err
	}
	defer child.Close()
	p.Logf("upload: %d streams of %d MiB in parts of %d MiB", streams, mib, partSize>>20)
	peak := make([]measure.Series, len(contenders))
	cpu := make([]measure.Series, len(contenders))
	err = measure.Rounds(ctx, len(contenders), p.Rounds, func(_, i int) error {
		cmd, err := measure.Self(uploader, strconv.Itoa(i), addr,
			strconv.Itoa(streams), strconv.Itoa(mib<<20))
		if err != nil {
			return err
		}
		child, err := measure.Start(cmd)
		if err != nil {
			return err
		}
		if err := child.Wait(); err != nil {
			return err
		}
		state := child.Cmd.ProcessState
		used := state.SysUsage().(*syscall.Rusage)
		peak[i] = append(peak[i], float64(used.Maxrss<<10)/(1<<20))
		cpu[i] = append(cpu[i], (state.UserTime()+state.SystemTime()).Seconds()*1e3/
			(float64(streams*mib)/1024))
		return nil
	})
	if err != nil {
		return err
	}
	t := measure.NewTable("upload", fmt.Sprintf("%d parallel uploads of %d MiB in parts of %d MiB",
		streams, mib, partSize>>20), "a part is", "peak RSS, MiB", "CPU ms a GiB", "CPU, x the first")
	t.Bar = 1
	t.Note = fmt.Sprintf("The parts of all streams are %d MiB.", streams*partSize>>20)
	for i, c := range contenders {
		t.Row(c.name, peak[i], cpu[i].Median(), cpu[i].Over(cpu[0]))
	}
	return p.Add(t)
}
