package room

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/csv"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const validity = 10 * 365 * 24 * time.Hour

// keyPair is a certificate with its private key, both in PEM.
type keyPair struct {
	name           string
	certificatePEM []byte
	keyPEM         []byte
}

// authority signs every certificate of one cluster.
type authority struct {
	keyPair
	certificate *x509.Certificate
	key         crypto.Signer
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage |= x509.KeyUsageCertSign
	pair, der, err := seal(name, template, template, key, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{keyPair: pair, certificate: certificate, key: key}, nil
}

// client issues a certificate by which the API server (or the kubelet) knows a user and its groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return keyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(user, template)
}

// server issues a certificate for names, each a DNS name or an address.
func (a *authority) server(names ...string) (keyPair, error) {
	template, err := newTemplate(pkix.Name{CommonName: names[0]})
	if err != nil {
		return keyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return a.issue(names[0], template)
}

func (a *authority) issue(name string, template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	pair, _, err := seal(name, template, a.certificate, key, a.key)
	return pair, err
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		// A little in the past, for clocks that step back.
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(validity),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}, nil
}

func seal(name string, template, parent *x509.Certificate, key, signer crypto.Signer) (keyPair, []byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return keyPair{}, nil, fmt.Errorf("cannot issue the certificate of %s: %w", name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, nil, err
	}
	certificatePEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return keyPair{name: name, certificatePEM: certificatePEM, keyPEM: keyPEM}, der, nil
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// writeCredentials makes the cluster's keys: certificates below pki/, and one kubeconfig for each client.
func writeCredentials(s Settings) error {
	ca, err := newAuthority("causeway-" + s.Name)
	if err != nil {
		return err
	}
	apiserver, err := ca.server("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc."+domain, "localhost", "127.0.0.1", s.Node.Address, apiServiceAddress)
	if err != nil {
		return err
	}
	toKubelets, err := ca.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	pairs := map[string]keyPair{
		"ca":               ca.keyPair,
		"apiserver":        apiserver,
		"apiserver-client": toKubelets,
	}
	for file, pair := range pairs {
		if err := writePair(s, file, pair); err != nil {
			return err
		}
	}
	if err := writeTokenKey(s); err != nil {
		return err
	}
	if err := writeTokens(s, ca); err != nil {
		return err
	}
	err = writeKubeconfigs(s, ca, []user{
		{s.Config("kube-controller-manager.kubeconfig"), "system:kube-controller-manager", ""},
		{s.Config("kube-scheduler.kubeconfig"), "system:kube-scheduler", ""},
		{s.Config("coredns.kubeconfig"), dnsUser, ""},
	})
	if err != nil {
		return err
	}
	return writeNodeCredentials(s, ca)
}

// writeNodeCredentials makes what the daemons of one node need.
func writeNodeCredentials(s Settings, ca *authority) error {
	if err := writeFile(s.PKI("ca.crt"), ca.certificatePEM, 0o644); err != nil {
		return err
	}
	kubelet, err := ca.server(s.Node.Name, s.Node.Address)
	if err != nil {
		return err
	}
	if err := writePair(s, "kubelet-server", kubelet); err != nil {
		return err
	}
	return writeKubeconfigs(s, ca, []user{
		{s.Config("kube-proxy.kubeconfig"), "system:kube-proxy", ""},
		{s.Config("kubelet.kubeconfig"), "system:node:" + s.Node.Name, "system:nodes"},
	})
}

// readAuthority finds the authority that signed a cluster's certificates.
func readAuthority(s Settings) (*authority, error) {
	pair, err := tls.LoadX509KeyPair(s.PKI("ca.crt"), s.PKI("ca.key"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster's authority: %w", err)
	}
	certificatePEM, err := os.ReadFile(s.PKI("ca.crt"))
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key of the cluster's authority cannot sign")
	}
	return &authority{keyPair: keyPair{certificatePEM: certificatePEM}, certificate: pair.Leaf, key: key}, nil
}

// writeTokenKey makes the key that signs service account tokens. It is an RSA key, because everything that verifies
// OpenID tokens understands RS256.
func writeTokenKey(s Settings) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return err
	}
	return writeFile(s.PKI("service-accounts.key"), encoded, 0o600)
}

// writeTokens makes the credentials of users of the cluster, tests among them, and of operators that run outside of
// pods. They are tokens: the API server only looks these up, but would verify a certificate with every request.
func writeTokens(s Settings, ca *authority) error {
	serviceAccounts := "system:serviceaccounts"
	users := []struct {
		file, name string
		groups     []string
	}{
		{"kubeconfig", "admin", []string{"system:masters"}},
		{"operator.kubeconfig", outsideUser, []string{serviceAccounts, serviceAccounts + ":" + outsideNamespace}},
	}
	var tokens bytes.Buffer
	table := csv.NewWriter(&tokens)
	for _, user := range users {
		token := rand.Text()
		if err := table.Write([]string{token, user.name, user.name, strings.Join(user.groups, ",")}); err != nil {
			return err
		}
		if err := writeKubeconfig(s, filepath.Join(s.State, user.file), ca, keyPair{name: user.name}, token); err != nil {
			return err
		}
	}
	table.Flush()
	if err := table.Error(); err != nil {
		return err
	}
	return writeFile(s.PKI("tokens.csv"), tokens.Bytes(), 0o600)
}

// user is a client of the API server: where its kubeconfig is, and by what name and group the server knows it.
type user struct{ path, name, group string }

func writeKubeconfigs(s Settings, ca *authority, users []user) error {
	for _, client := range users {
		var groups []string
		if client.group != "" {
			groups = []string{client.group}
		}
		pair, err := ca.client(client.name, groups...)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(s, client.path, ca, pair, ""); err != nil {
			return err
		}
	}
	return nil
}

func writePair(s Settings, file string, pair keyPair) error {
	if err := writeFile(s.PKI(file+".crt"), pair.certificatePEM, 0o644); err != nil {
		return err
	}
	return writeFile(s.PKI(file+".key"), pair.keyPEM, 0o600)
}
