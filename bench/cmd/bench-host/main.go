//go:build linux

// Command bench-host measures what two parameters of the Linux kernel change for programs that write: vm.dirty_ratio with
// vm.dirty_background_ratio, under random buffered writes; and fs.aio-max-nr, under asynchronous writes past the page cache.
//
// They are parameters of the whole machine. It changes them only as root and with -sysctl, and puts them back however it
// ends. Otherwise it measures those that are there. For as long as it runs, other programs get what it has set, and fewer
// asynchronous requests.
//
//	go run ./cmd/bench-host
//	go run ./cmd/bench-host -sysctl
//	go run ./cmd/bench-host -sysctl -only dirty -memory 0 -settings 80/10,30/10
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/files"
	"github.com/millrace-io/millrace/bench/host"
	"github.com/millrace-io/millrace/bench/measure"
)

type options struct {
	only, dir, settings, contexts, limits string

	rounds, size, memory int
	sysctl               bool

	writing host.Writing
	async   host.Async
}

func main() {
	host.Main()
	log.SetFlags(log.Ltime)
	var o options
	flag.StringVar(&o.only, "only", "dirty,aio", "what to measure")
	flag.IntVar(&o.rounds, "rounds", 4, "rounds")
	flag.BoolVar(&o.sysctl, "sysctl", false, "change the machine's parameters, as root, and put them back in the end")
	flag.StringVar(&o.dir, "dir", "", "where files are made, on a disk; the system's place for them if empty")
	flag.IntVar(&o.size, "size", 512, "MiB of all files together, up to 3072")
	flag.StringVar(&o.settings, "settings", "80/10,30/10,20/10,10/5",
		"dirty: RATIO/BACKGROUND in percent, more with commas; ratios are to the first")
	flag.IntVar(&o.memory, "memory", 256, "dirty: MiB that the settings are percentages of; 0 for the machine's memory")
	flag.IntVar(&o.writing.Writers, "writers", runtime.NumCPU(), "dirty: writers; more than processors wait for those, too")
	flag.DurationVar(&o.writing.Turn, "turn", 2*time.Second, "dirty: length of each turn, without the fsync at its end")
	flag.StringVar(&o.contexts, "contexts", "16,64,256", "aio: queues that are asked for, more with commas")
	flag.IntVar(&o.async.Requests, "requests", 1024, "aio: requests that a queue has room for")
	flag.IntVar(&o.async.Depth, "depth", 4, "aio: requests of a queue that are on their way at a time")
	flag.StringVar(&o.limits, "limits", "65536,524288", "aio: values of fs.aio-max-nr; ratios are to the first")
	flag.DurationVar(&o.async.Turn, "aio-turn", time.Second, "aio: length of each turn")
	flag.Parse()
	ctx, stop := measure.UntilStopped()
	defer stop()
	if err := run(ctx, &o, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	if err := o.parse(); err != nil {
		return err
	}
	disk, err := files.Disk(o.dir)
	if err != nil {
		return err
	}
	switch {
	case !o.sysctl:
		log.Print("only the parameters as they are: -sysctl changes them, as root, and puts them back")
	case os.Geteuid() != 0:
		log.Print("only the parameters as they are: -sysctl is for root")
	default:
		keeper, err := host.Keep(host.ProcSys, host.Parameters...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keeper.Close()) }()
		o.writing.Keeper, o.async.Keeper = keeper, keeper
	}
	fmt.Fprintf(out, "%s\n\nOn %s. The load average at the start was %s.\n", measure.Header(), disk, files.LoadAverage())
	for _, what := range strings.Split(o.only, ",") {
		if err := o.measure(ctx, strings.TrimSpace(what), out); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) measure(ctx context.Context, what string, out io.Writer) error {
	if what == "dirty" {
		results, err := o.writing.Run(ctx)
		if err == nil {
			o.writing.Write(out, results)
		}
		return err
	}
	results, err := o.async.Run(ctx)
	if err == nil {
		o.async.Write(out, results)
	}
	return err
}

// parse makes plans of the flags.
func (o *options) parse() error {
	for _, what := range strings.Split(o.only, ",") {
		if what = strings.TrimSpace(what); what != "dirty" && what != "aio" {
			return fmt.Errorf("-only %q: there are dirty and aio", what)
		}
	}
	const most = 3 << 10 // it is to leave the disk alone
	w, a := &o.writing, &o.async
	switch {
	case o.size < 1 || o.size > most:
		return fmt.Errorf("-size is from 1 to %d", most)
	case o.memory < 0:
		return errors.New("-memory is 0 or more")
	case o.rounds < 1 || w.Writers < 1 || w.Writers > o.size || w.Turn <= 0 || a.Turn <= 0:
		return errors.New("-rounds, -turn and -aio-turn are above 0, -writers from 1 to -size")
	case a.Requests < 1 || a.Depth < 1 || a.Depth > a.Requests:
		return errors.New("-requests is above 0, and -depth from 1 to -requests")
	}
	for _, s := range strings.Split(o.settings, ",") {
		p, err := host.ParseSetting(s)
		if err != nil {
			return err
		}
		w.Settings = append(w.Settings, p)
	}
	var err, also error
	a.Contexts, err = numbers("-contexts", o.contexts)
	a.Limits, also = numbers("-limits", o.limits)
	w.Dir, w.Size, w.Memory, w.Rounds, w.Log = o.dir, int64(o.size)<<20, int64(o.memory)<<20, o.rounds, log.Printf
	a.Dir, a.Size, a.Rounds, a.Log = o.dir, w.Size, o.rounds, log.Printf
	return errors.Join(err, also)
}

func numbers(name, list string) (all []int, err error) {
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s %q: want numbers above 0, with commas", name, list)
		}
		all = append(all, n)
	}
	return all, nil
}
