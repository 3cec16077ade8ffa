package room

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(templateFiles, "templates/*"))

// render fills one of the embedded templates.
func render(name string, values any) ([]byte, error) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, values); err != nil {
		return nil, fmt.Errorf("cannot render %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// writeConfig renders the configuration of every daemon of the first node into the state directory.
func writeConfig(s Settings) error {
	if err := writeNodeConfig(s); err != nil {
		return err
	}
	rendered := map[string]string{"Corefile": "Corefile", "audit.yaml": "audit.yaml"}
	return writeFiles(s, rendered, map[string]string{
		"nothing.zone": ". 1 IN SOA . . 1 3600 3600 3600 1\n",
		// Names that CoreDNS answers beside the cluster's own, in the format of /etc/hosts; may be changed at any time.
		"names": fmt.Sprintf("%s %s\n", s.Node.Address, s.Node.Name),
	})
}

// writeNodeConfig renders what every node has.
func writeNodeConfig(s Settings) error {
	rendered := map[string]string{
		"containerd.toml":                "containerd.toml",
		"registries/_default/hosts.toml": "hosts.toml",
		"cni/10-pods.conflist":           "cni.conflist",
		"kubelet.yaml":                   "kubelet.yaml",
		"kube-proxy.yaml":                "kube-proxy.yaml",
		"rules.nft":                      "rules.nft",
	}
	return writeFiles(s, rendered, map[string]string{
		"hosts":       fmt.Sprintf("127.0.0.1 localhost\n::1 localhost\n%s %s\n", s.Node.Address, s.Node.Name),
		"resolv.conf": fmt.Sprintf("nameserver %s\n", s.DNSAddress()),
	})
}

// writeFiles writes configuration files: those that are rendered, by the template's name, and those that are given.
func writeFiles(s Settings, rendered, given map[string]string) error {
	for file, name := range rendered {
		content, err := render(name, s)
		if err != nil {
			return err
		}
		if err := writeFile(s.Config(file), content, 0o644); err != nil {
			return err
		}
	}
	for file, content := range given {
		if err := writeFile(s.Config(file), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes the credentials of one client of the API server: a token, or else a certificate.
func writeKubeconfig(s Settings, path string, authority *authority, client keyPair, token string) error {
	content, err := render("kubeconfig", map[string]string{
		"Name":        s.Name,
		"Server":      s.Server(),
		"User":        client.name,
		"Authority":   base64.StdEncoding.EncodeToString(authority.certificatePEM),
		"Certificate": base64.StdEncoding.EncodeToString(client.certificatePEM),
		"Key":         base64.StdEncoding.EncodeToString(client.keyPEM),
		"Token":       token,
	})
	if err != nil {
		return err
	}
	return writeFile(path, content, 0o600)
}

func writeFile(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}
