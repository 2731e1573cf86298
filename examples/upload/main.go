// Command upload is a proxy for uploads of unknown length. It sends each upload to a server in
// parts of 8 MiB, retries failed parts, and holds at most 16 parts in memory.
//
//	go run ./upload http://localhost:9000/bucket & curl -T video.mp4 localhost:7001/video
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"

	"github.com/millrace-io/millrace"
)

var spool = millrace.NewSpool(8<<20, 16)

func main() {
	http.HandleFunc("PUT /{name}", func(w http.ResponseWriter, r *http.Request) {
		body := millrace.NewReader(r.Body)
		defer body.Release()
		for n := 1; ; n++ {
			part, err := spool.Next(r.Context(), body)
			if err == io.EOF {
				return
			} else if err == nil {
				err = send(r, n, part)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
		}
	})
	log.Fatal(http.ListenAndServe(":7001", nil))
}

// send sends part n of an upload, with up to three attempts.
func send(r *http.Request, n int, part *millrace.Body) error {
	defer part.Close()
	to := fmt.Sprintf("%s/%s.%d", os.Args[1], url.PathEscape(r.PathValue("name")), n)
	for range 3 { // each attempt has its own Body, which the Transport closes
		req, err := http.NewRequestWithContext(r.Context(), "PUT", to, nil)
		if err != nil {
			return err
		}
		req.Body = part.Clone()
		req.ContentLength = int64(part.Len())
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode < 300 {
				return nil
			}
		}
	}
	return fmt.Errorf("part %d was refused three times", n)
}
