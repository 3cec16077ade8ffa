package image

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path"
	"runtime"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// description is an image to be made: its layers, bottom first, and how its containers run.
type description struct {
	sources []string
	tags    []string
	config  v1.Config
}

// Push is the subcommand `image`: it makes an image of root file systems and pushes it under each of its tags.
func Push(arguments []string) error {
	var wanted description
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	registry := flags.String("registry", "198.18.0.10:5000", "registry to push to, over plain HTTP")
	list := func(target *[]string, option, usage string) {
		flags.Func(option, usage+" (repeatable)", func(value string) error { *target = append(*target, value); return nil })
	}
	list(&wanted.tags, "tag", "name as users write it, e.g. nginx:latest or quay.io/coreos/etcd:v3.5.9")
	list(&wanted.sources, "rootfs", "layer: a tar file (plain or compressed) or a directory, or SOURCE=/path/in/image for one file or directory")
	list(&wanted.config.Entrypoint, "entrypoint", "one word of the entry point")
	list(&wanted.config.Cmd, "cmd", "one word of the default arguments")
	list(&wanted.config.Env, "env", "NAME=value")
	flags.StringVar(&wanted.config.User, "user", "", "user, uid or uid:gid that containers run as")
	flags.StringVar(&wanted.config.WorkingDir, "workdir", "", "working directory")
	flags.StringVar(&wanted.config.StopSignal, "stop-signal", "", "signal that ends the containers, if not SIGTERM")
	wanted.config.ExposedPorts = map[string]struct{}{}
	flags.Func("expose", "PORT/tcp or PORT/udp (repeatable)",
		func(port string) error { wanted.config.ExposedPorts[port] = struct{}{}; return nil })
	wanted.config.Labels = map[string]string{}
	flags.Func("label", "KEY=value (repeatable)", func(label string) error { return addLabel(wanted.config.Labels, label) })
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("image: unexpected argument %q", flags.Arg(0))
	}
	if len(wanted.tags) == 0 || len(wanted.sources) == 0 {
		return errors.New("image: at least one --tag and one --rootfs are required")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return push(ctx, *registry, wanted)
}

// PushPause makes the image of the pods' sandboxes out of one static program.
func PushPause(ctx context.Context, registry, tag, program string) error {
	return push(ctx, registry, description{
		sources: []string{program + "=/pause"},
		tags:    []string{tag},
		config:  v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
	})
}

func push(ctx context.Context, registry string, wanted description) error {
	image, err := assemble(wanted)
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	size, err := downloadSize(image)
	if err != nil {
		return err
	}
	for _, tag := range wanted.tags {
		target, err := inRegistry(registry, tag)
		if err != nil {
			return err
		}
		// A transport without proxy settings: the registry is in the same network as we are.
		if err := remote.Write(target, image, remote.WithContext(ctx), remote.WithTransport(&http.Transport{})); err != nil {
			return fmt.Errorf("cannot push %s: %w", tag, err)
		}
		fmt.Printf("%s %s %d bytes\n", tag, digest, size)
	}
	return nil
}

func assemble(wanted description) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, source := range wanted.sources {
		layer, err := newLayer(source)
		if err != nil {
			return nil, fmt.Errorf("cannot make a layer of %s: %w", source, err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = wanted.config
	return mutate.ConfigFile(image, file)
}

// inRegistry turns an image's name into the place where a node looks for it: the same repository, of our registry.
func inRegistry(registry, tag string) (name.Tag, error) {
	known, err := name.NewTag(tag, name.WithDefaultTag("latest"))
	if err != nil {
		return name.Tag{}, err
	}
	return name.NewTag(path.Join(registry, known.RepositoryStr())+":"+known.TagStr(), name.Insecure)
}

func downloadSize(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	total := manifest.Config.Size
	for _, layer := range manifest.Layers {
		total += layer.Size
	}
	return total, nil
}
