// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const queueCommand = "queue"

// The verbs of queueCommand.
const (
	verbPut  = "put"
	verbGet  = "get"
	verbStat = "stat"
)

const queueUsage = `Usage: kubectl lighterage queue put NAME [-f FILE]... [flags]
       kubectl lighterage queue get NAME [--count N] [--wait 10s] [flags]
       kubectl lighterage queue stat NAME [-o json] [flags]

put stores what comes from standard input as one message, or each file as one; with --lines each line is one. It prints the sequence of
each message that is stored. Messages with a --key are put one after the other, so that none is stored before an earlier one.

get writes the messages themselves to standard output, one after the other as they are, and acknowledges them when they are written: then
they are gone from the queue. With --no-ack it gives them back instead; each look counts as a delivery all the same, and after as many
deliveries as spec.redelivery.maxDeliveries says a message becomes a dead letter. With -o json each message is a line with an object that
has also its headers; body is text, and bodyBase64 stands in its place where the message is none.

stat says what the Queue's status has: how many messages there are, since when, how fast they come and go, how well they compress. It also
asks a member whether it serves you.

put and get reach port 8443 of a ready member through the API server as kubectl port-forward does, or --server. They accept its certificate if
it is of the CA in --ca-file; else in ca.crt of the Secret that spec.tls names (which is of the system's CAs if it has no ca.crt); else, without
spec.tls, in the ConfigMap NAME-ca beside the Queue, or lighterage-ca of the operator's namespace. They show the token that is in the Secret which
spec.authentication.tokens names, or in --token-file, or a client certificate. All is read with your own rights: get on the Queue, on these
Secrets and this ConfigMap, list on pods, and get and create on pods/portforward. With --server, --ca-file and --token-file (or --client-certificate) no
cluster is asked.

Exit codes: 0 done, 1 failed, 2 wrong command line, 3 get found no message.

Flags:
`

// maxWait bounds --wait.
const maxWait = 24 * time.Hour

// queueSettings are what the command line says about a Queue.
type queueSettings struct {
	verb, name string

	server, serverName, caFile, operatorNamespace string
	tokenFile, tokenName                          string
	certificateFile, keyFile                      string

	files      []string
	key, id    string
	headerList []string
	headers    map[string]string
	lines      bool

	count            int
	wait, visibility time.Duration
	ack, noAck, dead bool
	directory        string
}

// verbsOf says which verbs flags belong to that not all know.
var verbsOf = map[string][]string{
	"filename": {verbPut}, "key": {verbPut}, "id": {verbPut}, "header": {verbPut}, "lines": {verbPut, verbGet},
	"count": {verbGet}, "wait": {verbGet}, "visibility": {verbGet}, "ack": {verbGet}, "no-ack": {verbGet}, "dead": {verbGet}, "directory": {verbGet},
}

func (q *queueSettings) flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("queue", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringArrayVarP(&q.files, "filename", "f", nil, "put: file that is a message, - for standard input; may be repeated (default: -)")
	flags.StringVar(&q.key, "key", "", "put: key of messages whose order counts")
	flags.StringVar(&q.id, "id", "", "put: id by which a repeated put is found; for a single message")
	flags.StringArrayVar(&q.headerList, "header", nil, "put: header as NAME=VALUE; may be repeated")
	flags.BoolVar(&q.lines, "lines", false, "put: each line is a message; get: write an end of line after each")
	flags.IntVar(&q.count, "count", 1, "get: how many messages at most; 0: all that are there")
	flags.DurationVar(&q.wait, "wait", firstWait, "get: how long to wait for the first message; with less than a second a queue may seem empty that nobody got from for a while")
	flags.DurationVar(&q.visibility, "visibility", 0, "get: how long nobody else gets the messages meanwhile (default: as the Queue says)")
	flags.BoolVar(&q.ack, "ack", false, "get: acknowledge messages when they are written, which is what it does unless told otherwise")
	flags.BoolVar(&q.noAck, "no-ack", false, "get: give messages back in place of acknowledging them")
	flags.BoolVar(&q.dead, "dead", false, "get: dead letters")
	flags.StringVar(&q.directory, "directory", "", "get: write each message to a file of its own there, named by its sequence")
	flags.StringVar(&q.server, "server", "", "HOST:PORT of the service, in place of a member's pod")
	flags.StringVar(&q.serverName, "server-name", "", "name that the certificate must have (default: NAME.NAMESPACE.svc, with --server its host)")
	flags.StringVar(&q.caFile, "ca-file", "", "PEM file of the CAs that may vouch for the service")
	flags.StringVar(&q.operatorNamespace, "operator-namespace", "lighterage-system", "namespace with the ConfigMap lighterage-ca")
	flags.StringVar(&q.tokenFile, "token-file", "", "file with the token")
	flags.StringVar(&q.tokenName, "token-name", "", "key of the token in the Queue's Secret (default: the only one)")
	flags.StringVar(&q.certificateFile, "client-certificate", "", "PEM file of a client certificate, in place of a token")
	flags.StringVar(&q.keyFile, "client-key", "", "PEM file of its key")
	return flags
}

// parseQueue reads what follows the word queue.
func (s *settings) parseQueue(flags, own *pflag.FlagSet) error {
	const form = "write kubectl lighterage queue put|get|stat NAME"
	q, arguments := &s.queue, flags.Args()[1:]
	switch {
	case len(arguments) == 0:
		return errors.New("say what to do with a Queue: " + form)
	case !slices.Contains([]string{verbPut, verbGet, verbStat}, arguments[0]):
		return fmt.Errorf("queue does not know the command %q: %s", arguments[0], form)
	case len(arguments) > 2:
		return fmt.Errorf("unexpected argument %q: queue %s takes one Queue", arguments[2], arguments[0])
	case len(arguments) < 2:
		return errors.New("the name of the Queue is missing: " + form)
	}
	name := arguments[1]
	if kind, rest, found := strings.Cut(name, "/"); found {
		if !slices.Contains([]string{"queue", "queues", "queue.lighterage.dev", "queues.lighterage.dev"}, strings.ToLower(kind)) {
			return fmt.Errorf("queue %s knows of Queues only, not of %q: %s", arguments[0], kind, form)
		}
		name = rest
	}
	if name == "" || strings.Contains(name, "/") {
		return errors.New("the name of the Queue is missing: " + form)
	}
	q.verb, q.name = arguments[0], name
	var foreign error
	flags.Visit(func(f *pflag.Flag) {
		if verbs, ok := verbsOf[f.Name]; ok && foreign == nil && own.Lookup(f.Name) != nil && !slices.Contains(verbs, q.verb) {
			foreign = fmt.Errorf("--%s is a flag of queue %s, not of queue %s", f.Name, strings.Join(verbs, " and "), q.verb)
		}
	})
	if foreign != nil {
		return foreign
	}
	if err := q.checkAccess(); err != nil {
		return err
	}
	switch q.verb {
	case verbPut:
		if s.output != "" {
			return errors.New("--output is a flag of queue get and stat, not of queue put")
		}
		return q.checkPut()
	case verbGet:
		if err := s.choose("raw", "json"); err != nil {
			return err
		}
		return q.checkGet(flags, s.output)
	default:
		return s.choose("text", "json")
	}
}

func (q *queueSettings) checkAccess() error {
	if q.server != "" {
		if host, port, err := net.SplitHostPort(q.server); err != nil || host == "" || port == "" {
			return fmt.Errorf("--server must be HOST:PORT, such as orders.example:8443, not %q", q.server)
		}
	}
	switch {
	case (q.certificateFile == "") != (q.keyFile == ""):
		return errors.New("--client-certificate and --client-key belong together: give both")
	case q.certificateFile != "" && (q.tokenFile != "" || q.tokenName != ""):
		return errors.New("give a token or a client certificate, not both")
	case q.tokenFile != "" && q.tokenName != "":
		return errors.New("--token-name is of the Queue's Secret: leave it out with --token-file")
	}
	return nil
}

func (q *queueSettings) checkPut() error {
	if len(q.files) == 0 {
		q.files = []string{standard}
	}
	stdin := 0
	for _, f := range q.files {
		if f == standard {
			stdin++
		}
	}
	switch {
	case stdin > 1:
		return errors.New("standard input can be read once: name - once")
	case q.id != "" && (len(q.files) > 1 || q.lines):
		return errors.New("--id is for a single message: a second one with the same id would not be stored")
	}
	q.headers = make(map[string]string, len(q.headerList))
	for _, header := range q.headerList {
		name, value, found := strings.Cut(header, "=")
		if _, twice := q.headers[name]; !found || name == "" || twice {
			return fmt.Errorf("--header must be NAME=VALUE with each name once, not %q", header)
		}
		q.headers[name] = value
	}
	return nil
}

func (q *queueSettings) checkGet(flags *pflag.FlagSet, output string) error {
	if flags.Changed("ack") {
		if q.noAck && q.ack {
			return errors.New("give --ack or --no-ack, not both")
		}
		q.noAck = q.noAck || !q.ack
	}
	switch {
	case q.count < 0:
		return fmt.Errorf("--count must be 1 or more, or 0 for all that are there, not %d", q.count)
	case q.wait < 0 || q.wait > maxWait:
		return fmt.Errorf("--wait must be between 0s and %v, not %v", maxWait, q.wait)
	case q.visibility != 0 && (q.visibility < time.Second || q.visibility > 12*time.Hour):
		return fmt.Errorf("--visibility must be between 1s and 12h, not %v", q.visibility)
	case q.noAck && q.count == 0:
		// What is given back would come again without end.
		return errors.New("--no-ack gives messages back: say with --count how many to look at")
	case q.lines && (output == "json" || q.directory != ""):
		return errors.New("--lines is for messages on standard output as they are: leave it out with -o json and --directory")
	}
	return nil
}
