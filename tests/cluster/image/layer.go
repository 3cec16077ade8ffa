package image

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// newLayer makes a layer of SOURCE or SOURCE=/path/in/image.
func newLayer(source string) (v1.Layer, error) {
	open, err := opener(source)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func opener(source string) (tarball.Opener, error) {
	from, to, placed := strings.Cut(source, "=")
	if placed && !strings.HasPrefix(to, "/") {
		return nil, fmt.Errorf("%q is not an absolute path in the image", to)
	}
	about, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if !placed && !about.IsDir() {
		return func() (io.ReadCloser, error) { return os.Open(from) }, nil
	}
	return func() (io.ReadCloser, error) {
		read, write := io.Pipe()
		go func() { write.CloseWithError(archive(write, from, strings.Trim(to, "/"))) }()
		return read, nil
	}, nil
}

// archive writes a file or directory as a tar whose bytes depend on names, modes and contents only, so that the same
// files give the same image. Everything belongs to root.
func archive(out io.Writer, from, to string) error {
	archive := tar.NewWriter(out)
	if err := addParents(archive, to); err != nil {
		return err
	}
	// WalkDir goes in lexical order.
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		inImage := filepath.Join(to, below)
		if inImage == "." {
			return nil
		}
		return addEntry(archive, path, inImage, entry)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func addParents(archive *tar.Writer, path string) error {
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: strings.Join(parts[:i], "/") + "/", Mode: 0o755}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
	}
	return nil
}

func addEntry(archive *tar.Writer, path, inImage string, entry fs.DirEntry) error {
	about, err := entry.Info()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: inImage, Mode: mode(about.Mode())}
	switch {
	case about.IsDir():
		header.Typeflag = tar.TypeDir
		header.Name += "/"
		return archive.WriteHeader(header)
	case about.Mode()&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
		return archive.WriteHeader(header)
	case about.Mode().IsRegular():
		header.Typeflag = tar.TypeReg
		header.Size = about.Size()
		return addFile(archive, path, header)
	default:
		return fmt.Errorf("%s is neither file, directory nor link", path)
	}
}

func addFile(archive *tar.Writer, path string, header *tar.Header) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// mode gives the permission bits as tar writes them.
func mode(of fs.FileMode) int64 {
	bits := int64(of.Perm())
	for flag, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if of&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

func addLabel(labels map[string]string, label string) error {
	key, value, ok := strings.Cut(label, "=")
	if !ok {
		return fmt.Errorf("%q is not KEY=value", label)
	}
	labels[key] = value
	return nil
}
