package room

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestCertificatesAreTrustedForTheirUseOnly(t *testing.T) {
	ca, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.server("kubernetes.default.svc", apiServiceAddress)
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.client("system:node:node-1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	verify := func(pair keyPair, name string, use x509.ExtKeyUsage) (*x509.Certificate, error) {
		loaded, err := tls.X509KeyPair(pair.certificatePEM, pair.keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		options := x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{use}}
		_, err = loaded.Leaf.Verify(options)
		return loaded.Leaf, err
	}
	for _, name := range []string{"kubernetes.default.svc", apiServiceAddress} {
		if _, err := verify(server, name, x509.ExtKeyUsageServerAuth); err != nil {
			t.Errorf("server as %s: %v", name, err)
		}
	}
	if _, err := verify(server, "", x509.ExtKeyUsageClientAuth); err == nil {
		t.Error("the server's certificate is good for a client")
	}
	leaf, err := verify(client, "", x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Subject.CommonName != "system:node:node-1" || len(leaf.Subject.Organization) != 1 {
		t.Errorf("client: %v", leaf.Subject)
	}
}
