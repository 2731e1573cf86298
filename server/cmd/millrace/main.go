// Command millrace is a live streaming and file server:
//
//   - `millrace serve` relays streams from publishers to viewers, serves files and keeps blobs.
//   - `millrace load` puts a load on a server and measures what arrives.
//   - `millrace doctor` reports what the machine lacks for serving.
//   - `millrace token` signs and inspects tokens (JWT) of publishers and viewers.
//
// This package is flags and wiring: the server is in internal/server, the load in internal/load, the checks of the
// machine in internal/doctor.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	// The first signal asks for an orderly end. A second one ends the process at once, also if the
	// shell that started it in the background has it ignore SIGINT.
	context.AfterFunc(ctx, func() {
		second := make(chan os.Signal, 1)
		signal.Notify(second, os.Interrupt, syscall.SIGTERM)
		stop()
		if s, ok := (<-second).(syscall.Signal); ok {
			os.Exit(128 + int(s))
		}
	})
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "millrace:", err)
		if strings.HasPrefix(err.Error(), unknownCommand) {
			fmt.Fprintln(os.Stderr, "millrace --help lists them")
		}
		os.Exit(exitStatus(err))
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "millrace",
		Short: "Relay live streams over RTMP, HTTP and HLS, and serve files, without copying them",
		Long: `Millrace relays live streams: an encoder such as OBS or ffmpeg publishes one over RTMP or HTTP, and any
number of viewers get it over HLS with low latency, as MP4 for a browser, as FLV, or over RTMP. It records
streams, and several servers form a cluster. It also serves files and keeps blobs.

See a picture at once:

  millrace serve --demo        then open http://127.0.0.1:8080/

The exit status is 2 if the command line cannot be read: an unknown command or flag, an invalid value, or an extra
argument.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate(versionLine())
	root.AddCommand(serveCommand(), loadCommand(), doctorCommand(), healthcheckCommand(), tokenCommand(), versionCommand())
	root.SetFlagErrorFunc(wrongFlag)
	knowTopics(root)
	return root
}

// knowTopics makes `millrace help` fail when it is asked for an unknown command. cobra's own help prints the usage and
// succeeds.
func knowTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // it was made a line above
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		_, rest, err := root.Find(args)
		if err == nil && len(rest) > 0 {
			path := append([]string{root.Name()}, args[:len(args)-len(rest)]...)
			err = fmt.Errorf("%s %q for %q", unknownCommand, rest[0], strings.Join(path, " "))
		}
		return err
	}
}

// noArguments refuses arguments that are not flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused(fmt.Errorf("%s takes no argument, such as %q: see %[1]s --help", cmd.CommandPath(), args[0]))
	}
	return nil
}
