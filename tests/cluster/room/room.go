// Package room runs a Kubernetes cluster in Linux namespaces of its own: as PID 1 of them it makes the network, the
// mounts and the credentials, starts every daemon, and ends, with all of it, when one of them does.
package room

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"causeway.example.com/causeway-cluster/image"
)

// room is one running cluster.
type room struct {
	settings   Settings
	supervisor *supervisor
	log        *log.Logger
}

// Run is the subcommand `room`: it returns when the room must end.
func Run(arguments []string) error {
	settings, err := parse(arguments)
	if err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return errors.New("a room must be PID 1: unshare --net --mount --pid --uts --fork --kill-child --mount-proc " +
			settings.Program + " room …")
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	r := &room{settings: settings, supervisor: newSupervisor(), log: log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)}
	err = r.live(ctx)
	if ctx.Err() != nil {
		r.log.Print("told to end")
		return nil
	}
	if failure := settings.report(phaseFailed, err.Error()); failure != nil {
		r.log.Print(failure)
	}
	return err
}

func parse(arguments []string) (Settings, error) {
	return parseFlags(flag.NewFlagSet("room", flag.ContinueOnError), arguments)
}

// parseFlags reads the flags that rooms and nodes have, beside those that are in the set already.
func parseFlags(flags *flag.FlagSet, arguments []string) (Settings, error) {
	program, err := os.Executable()
	if err != nil {
		return Settings{}, err
	}
	state := flags.String("state", "", "directory for everything the cluster keeps (required)")
	name := flags.String("name", "demo", "name of the cluster, for its kubeconfig")
	cgroup := flags.String("cgroup", "", "control group of the cluster, no other's on this machine (required)")
	var keep []string
	flags.Func("keep", "directory that must stay visible in the room even if below /tmp, /var or /run (repeatable)",
		func(path string) error { keep = append(keep, path); return nil })
	audited := flags.Bool("audit", false, "write down what operators ask the API server for, in audit/audit.log of the state")
	inMemory := flags.Bool("volumes-in-memory", false, "keep persistent volumes in memory, not on the disk")
	if err := flags.Parse(arguments); err != nil {
		return Settings{}, err
	}
	if !filepath.IsAbs(*state) {
		return Settings{}, fmt.Errorf("--state needs an absolute path, not %q", *state)
	}
	if *cgroup == "" || strings.Contains(*cgroup, "/") {
		return Settings{}, fmt.Errorf("--cgroup needs a plain name, not %q", *cgroup)
	}
	settings := newSettings(*name, *state, *cgroup, program, keep)
	settings.VolumesInMemory = *inMemory
	settings.Audited = *audited
	return settings, nil
}

// live sets the room up and returns the reason why it must end.
func (r *room) live(ctx context.Context) error {
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.startDaemons(ctx); err != nil {
		return err
	}
	return r.stay(ctx)
}

// stay says that everything is ready, and returns the reason for the end.
func (r *room) stay(ctx context.Context) error {
	if err := r.settings.report(phaseReady, ""); err != nil {
		return err
	}
	r.log.Print("ready")
	select {
	case err := <-r.supervisor.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepare makes the room itself; nothing runs in it yet.
func (r *room) prepare() error {
	s := r.settings
	if err := s.report(phaseStarting, "network, mounts and credentials"); err != nil {
		return err
	}
	// The first write of a file decides which groups' limits count it: join first.
	if err := joinCgroups(s); err != nil {
		return err
	}
	if err := writeConfig(s); err != nil {
		return err
	}
	if err := writeCredentials(s); err != nil {
		return err
	}
	if err := prepareMounts(s); err != nil {
		return err
	}
	if s.VolumesInMemory {
		if err := keepVolumesInMemory(); err != nil {
			return err
		}
	}
	if err := openVolumes(r.log); err != nil {
		return err
	}
	if err := prepareNetwork(s); err != nil {
		return err
	}
	return r.supervisor.run(s.Log("nft"), []string{"nft", "--file", s.Config("rules.nft")})
}

func (r *room) startDaemons(ctx context.Context) error {
	s := r.settings
	if err := r.start(s.foundation()); err != nil {
		return err
	}
	client, err := newClient(filepath.Join(s.State, "kubeconfig"))
	if err != nil {
		return err
	}
	if err := r.wait(ctx, registryAnswers(s)); err != nil {
		return err
	}
	if err := image.PushPause(ctx, s.RegistryAddress(), pauseImage, filepath.Join(filepath.Dir(s.Program), "pause")); err != nil {
		return fmt.Errorf("cannot push the pause image: %w", err)
	}
	for _, wanted := range []condition{containerdAnswers(), apiAnswers(client.RESTClient())} {
		if err := r.wait(ctx, wanted); err != nil {
			return err
		}
	}
	if err := bootstrap(ctx, client); err != nil {
		return fmt.Errorf("cannot create the cluster's first objects: %w", err)
	}
	if err := r.start(s.clients()); err != nil {
		return err
	}
	for _, wanted := range []condition{
		podsAllowed(client), nodeReady(client, s.Node.Name), servicesWork(), dnsAnswers(s),
	} {
		if err := r.wait(ctx, wanted); err != nil {
			return err
		}
	}
	return nil
}

func (r *room) start(daemons []daemon) error {
	for _, daemon := range daemons {
		r.log.Printf("starting %s", daemon.name)
		if err := r.supervisor.daemon(daemon, r.settings.Log(daemon.name)); err != nil {
			return err
		}
	}
	return nil
}
