// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/check"
	"github.com/lighterage/lighterage/controllers/redact"
	"github.com/lighterage/lighterage/controllers/table"
)

const (
	// maxGathered bounds how many objects of a resource are gathered, maxLogPods how many pods' logs, maxLogBytes and
	// maxLogLines each log.
	maxGathered = 5000
	maxLogPods  = 100
	maxLogBytes = 4 << 20
	maxLogLines = 20000
	operatorApp = "app.kubernetes.io/name=lighterage"
	agentsApp   = agentpod.AppLabel + "=" + agentpod.AppName
)

type gathering struct {
	checking
	file string

	lister dynamic.Interface
	caller *http.Client
	base   *url.URL
	into   *archive
}

// gathered is what the index of a bundle says of a file.
type gathered struct {
	File    string `json:"file"`
	Objects int    `json:"objects,omitempty"`
	// Note says why something is missing.
	Note string `json:"note,omitempty"`
}

func newGather(p *plugin) *cobra.Command {
	g := &gathering{checking: checking{plugin: p}}
	cmd := &cobra.Command{
		Use:   "gather",
		Short: "Write a support bundle without secrets",
		Long: `Write a support bundle: a compressed archive with the results of kubectl lighterage check, the objects of all kinds of
Lighterage, Jobs and pods of agents, and, of the operator's namespace, its workloads, Services, NetworkPolicies, events
and logs. It changes nothing in the cluster.

Secrets and ConfigMaps are not read, except the public ConfigMap lighterage-ca, for check. Values of environment
variables, annotations of others and managed fields are removed, and so is what looks like a private key, token,
password or other credential, from objects and logs. The bundle does name namespaces, objects, nodes, claims, files in
messages, and addresses: look through it before you give it away.

With --namespace, objects of that namespace alone are gathered. What you may not read is left out; index.yaml names it.
It takes the rights of check; list on all kinds of lighterage.dev, on pods and on jobs; and, in the operator's
namespace, list on services and events, and get on pods/log.`,
		Example: `  kubectl lighterage gather
  kubectl lighterage gather -n bank --file bank.tar.gz`,
		Args: cobra.NoArgs, RunE: action(g.run),
	}
	flags := cmd.Flags()
	flags.StringVar(&g.operator, "operator-namespace", "lighterage-system", "`namespace` of the operator")
	flags.StringVar(&g.file, "file", "", "`path` of the bundle, which must not exist "+
		"(default: lighterage-gather-TIME.tar.gz)")
	completeFlag(cmd, "file", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	return cmd
}

func (g *gathering) run(ctx context.Context) (err error) {
	if err := g.open(); err != nil {
		return err
	}
	if g.lister, err = dynamic.NewForConfig(g.config); err == nil {
		g.caller, err = rest.HTTPClientFor(g.config)
	}
	if err == nil {
		g.base, _, err = rest.DefaultServerUrlFor(g.config)
	}
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	now := time.Now().UTC()
	root := "lighterage-gather-" + now.Format("20060102-150405")
	g.file = cmp.Or(g.file, root+".tar.gz")
	file, err := os.OpenFile(g.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; remove it, or name another file with --file", g.file)
	}
	if err != nil {
		return fmt.Errorf("making the bundle: %w", err)
	}
	g.into = newArchive(file, root, now)
	err = errors.Join(g.all(ctx), g.into.close(), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(g.file)) // half a bundle helps nobody
	}
	g.say("Bundle written; look through it before you give it away")
	if _, err := fmt.Fprintln(g.Out, g.file); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// all writes everything.
func (g *gathering) all(ctx context.Context) error {
	g.say("Checking the installation")
	facts, err := g.facts(ctx)
	if err != nil {
		return err
	}
	summary := summarise(check.Run(facts))
	results, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&summary)
	if err != nil {
		return fmt.Errorf("converting the results of checks: %w", err)
	}
	redact.Object(results)
	if err := g.document("check.yaml", results, 0, ""); err != nil {
		return err
	}
	for _, k := range allKinds {
		resource, namespace := v1alpha1.GroupVersion.WithResource(k.words[0]), *g.flags.Namespace
		if k.cluster {
			namespace = ""
		}
		if _, err := g.objects(ctx, "objects/"+resource.Resource, resource, namespace, ""); err != nil {
			return err
		}
	}
	for _, r := range []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Version: "v1", Resource: "services"}, {Version: "v1", Resource: "events"},
	} {
		if _, err := g.objects(ctx, "operator/"+r.Resource, r, g.operator, ""); err != nil {
			return err
		}
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	found, err := g.objects(ctx, "operator/pods", pods, g.operator, operatorApp)
	if err != nil {
		return err
	}
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	for _, r := range []schema.GroupVersionResource{pods, jobs} {
		if _, err := g.objects(ctx, "agents/"+r.Resource, r, *g.flags.Namespace, agentsApp); err != nil {
			return err
		}
	}
	if err := g.logs(ctx, found); err != nil {
		return err
	}
	return g.into.finish()
}

// objects writes the objects of a resource, without secrets, and returns them.
func (g *gathering) objects(
	ctx context.Context, name string, of schema.GroupVersionResource, namespace, labels string,
) ([]unstructured.Unstructured, error) {
	g.say("Reading %s", of.Resource)
	var items []unstructured.Unstructured
	var written []any
	note := ""
	for more := ""; ; {
		page, err := g.lister.Resource(of).Namespace(namespace).List(ctx, metav1.ListOptions{
			Limit: checkPage, Continue: more, LabelSelector: labels,
		})
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted: %w", ctx.Err())
		}
		if err != nil {
			note = "not read: " + err.Error()
			break
		}
		items = append(items, page.Items...)
		if more = page.GetContinue(); more == "" {
			break
		}
		if len(items) >= maxGathered {
			note = fmt.Sprintf("the first %d only", len(items))
			break
		}
	}
	for i := range items {
		redact.Object(items[i].Object)
		written = append(written, items[i].Object)
	}
	return items, g.document(name+".yaml", written, len(items), note)
}

// document writes a file of YAML. Without content and with a note, only the index has it.
func (g *gathering) document(name string, content any, objects int, note string) error {
	if objects == 0 && note != "" {
		g.into.missing(name, redact.Text(note))
		return nil
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return g.into.add(gathered{File: name, Objects: objects, Note: redact.Text(note)}, text)
}

// logs writes those of the containers of pods, and of the containers before them if they were restarted.
func (g *gathering) logs(ctx context.Context, pods []unstructured.Unstructured) error {
	for i := range pods {
		if i == maxLogPods {
			g.into.missing("logs", fmt.Sprintf("those of the first %d pods only", maxLogPods))
			return nil
		}
		pod := pods[i].GetName()
		g.say("Reading the logs of %s", pod)
		containers, _, _ := unstructured.NestedSlice(pods[i].Object, "spec", "containers")
		restarts := restartsOf(pods[i].Object)
		for _, c := range containers {
			container, _ := c.(map[string]any)
			name, _ := container["name"].(string)
			if err := g.log(ctx, pod, name, false); err != nil {
				return err
			}
			if restarts[name] {
				if err := g.log(ctx, pod, name, true); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// restartsOf are the containers of a pod that were restarted.
func restartsOf(pod map[string]any) map[string]bool {
	restarted := map[string]bool{}
	statuses, _, _ := unstructured.NestedSlice(pod, "status", "containerStatuses")
	for _, s := range statuses {
		status, _ := s.(map[string]any)
		name, _ := status["name"].(string)
		count, _ := status["restartCount"].(int64)
		restarted[name] = count > 0
	}
	return restarted
}

func (g *gathering) log(ctx context.Context, pod, container string, previous bool) error {
	name := "logs/" + pod + "/" + container + ".log"
	query := url.Values{
		"container": {container}, "timestamps": {"true"}, "tailLines": {strconv.Itoa(maxLogLines)},
		"limitBytes": {strconv.Itoa(maxLogBytes)},
	}
	if previous {
		name = "logs/" + pod + "/" + container + ".previous.log"
		query.Set("previous", "true")
	}
	at := g.base.JoinPath("api", "v1", "namespaces", g.operator, "pods", pod, "log")
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", pod, err)
	}
	text, err := read(g.caller, request)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
	if err != nil {
		g.into.missing(name, redact.Text("not read: "+err.Error()))
		return nil //nolint:nilerr // the bundle says what is missing
	}
	return g.into.add(gathered{File: name}, printableLines(redact.Text(text)))
}

// read returns what is answered with 200.
func read(caller *http.Client, request *http.Request) (string, error) {
	answer, err := caller.Do(request)
	if err != nil {
		return "", err //nolint:wrapcheck // it names the address
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLogBytes))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(text), err
}

// printableLines are lines without what commands a terminal.
func printableLines(text string) []byte {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(table.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return []byte(out.String())
}
