package image

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestRegistryKnowsImagesByRepository(t *testing.T) {
	for tag, want := range map[string]string{
		"nginx":                      "here:5000/library/nginx:latest",
		"redis:7.0.15":               "here:5000/library/redis:7.0.15",
		"quay.io/coreos/etcd:v3.5.9": "here:5000/coreos/etcd:v3.5.9",
	} {
		got, err := inRegistry("here:5000", tag)
		if err != nil || got.Name() != want {
			t.Errorf("%s: %s, %v", tag, got.Name(), err)
		}
	}
}

func TestLayersDependOnContentsOnly(t *testing.T) {
	var first []byte
	for _, directory := range []string{t.TempDir(), t.TempDir()} {
		if err := os.WriteFile(filepath.Join(directory, "tool"), []byte("x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("tool", filepath.Join(directory, "alias")); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := archive(&out, directory, "usr/bin"); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out.Bytes()
		} else if !bytes.Equal(first, out.Bytes()) {
			t.Error("the same files gave two archives")
		}
	}
	var names []string
	for reader := tar.NewReader(bytes.NewReader(first)); ; {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	if want := []string{"usr/", "usr/bin/", "usr/bin/alias", "usr/bin/tool"}; !slices.Equal(names, want) {
		t.Errorf("names %v", names)
	}
}

func TestPushedImageComesBack(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(t.TempDir()))))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := Push([]string{"--registry", address, "--tag", "quay.io/team/tool:1", "--rootfs", program + "=/bin/tool",
		"--entrypoint", "/bin/tool", "--cmd", "-v", "--user", "65532", "--env", "A=b", "--expose", "80/tcp"})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(address+"/team/tool:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := file.Config
	if !slices.Equal(config.Entrypoint, []string{"/bin/tool"}) || !slices.Equal(config.Cmd, []string{"-v"}) ||
		config.User != "65532" || !slices.Equal(config.Env, []string{"A=b"}) {
		t.Errorf("config %+v", config)
	}
	if err := Push([]string{"--tag", "x"}); err == nil || !strings.Contains(err.Error(), "--rootfs") {
		t.Errorf("without a root file system: %v", err)
	}
}
