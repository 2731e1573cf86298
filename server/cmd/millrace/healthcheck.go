package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const healthTimeout = 5 * time.Second

func healthcheckCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a server on this machine whether it serves: status 0 or 1",
		Long: `Healthcheck is for containers without other programs. It fails if the server does not answer, or shuts down. It does
not verify the server's certificate, which is for another name.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			if !strings.HasSuffix(url, "/healthz") {
				url = strings.TrimSuffix(url, "/") + "/healthz"
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return misused(fmt.Errorf("--url: %w", err))
			}
			tr := &http.Transport{DisableKeepAlives: true,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			res, err := tr.RoundTrip(req)
			if err != nil {
				return err
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("the server answers %s", res.Status)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:8080",
		"where the server is, with or without /healthz")
	return cmd
}
