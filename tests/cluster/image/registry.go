// Package image serves and fills the registry that every node of the cluster pulls from.
package image

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Serve is the subcommand `registry`: layers are kept on disk, manifests in memory. It knows repositories, not
// registries: the nodes use it as the mirror of all of them.
func Serve(arguments []string) error {
	flags := flag.NewFlagSet("registry", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:5000", "address to serve plain HTTP on")
	directory := flags.String("directory", "", "where layers are kept (required)")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *directory == "" {
		return fmt.Errorf("registry: --directory is required")
	}
	if err := os.MkdirAll(*directory, 0o755); err != nil {
		return err
	}
	server := &http.Server{
		Addr: *listen,
		Handler: registry.New(
			registry.WithBlobHandler(registry.NewDiskBlobHandler(*directory)),
			registry.Logger(log.New(io.Discard, "", 0)),
		),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return server.ListenAndServe()
}
