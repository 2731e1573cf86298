package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "millrace",
		Short: "Relay live streams over RTMP, HTTP and HLS, and serve files, without copying them",
		Long: `Millrace relays live streams: an encoder such as OBS or ffmpeg publishes one over RTMP or HTTP, and any
number of viewers get it over HLS with low latency, as MP4 for a browser, as FLV, or over RTMP. It records
streams, and several servers form a cluster. It also serves files and keeps blobs.

To see a sample stream:

  millrace serve --demo        then open http://127.0.0.1:8080/

The exit status is 2 if the command line cannot be read: an unknown command or flag, an invalid value, or an extra
argument.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate(versionLine())
	root.AddCommand(serveCommand(), loadCommand(), doctorCommand(), healthcheckCommand(),
		tokenCommand(), versionCommand())
	root.SetFlagErrorFunc(wrongFlag)
	knowTopics(root)
	return root
}

// knowTopics makes `millrace help` fail for an unknown command. By default, it succeeds.
func knowTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // impossible: InitDefaultHelpCmd has added the command
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
