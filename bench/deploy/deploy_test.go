// Package deploy checks the manifests in ../../deploy with the libraries of the programs that read
// them. nginx and HAProxy check theirs in server/internal/server.
package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const manifests = "../../deploy/"

// knownFlags fails the test for a flag of serve that docs/flags.md, which is generated from the
// flags, does not list.
func knownFlags(t *testing.T, args []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(flag, "--") && !bytes.Contains(page, []byte("`"+flag+"`")) {
			t.Errorf("serve has no flag %s", flag)
		}
	}
}

func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{manifests + "compose.yaml"},
		cli.WithEnv([]string{"MILLRACE_PUBLISH_TOKEN=b"}), cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server, err := project.GetService("millrace")
	if err != nil {
		t.Fatal(err)
	}
	knownFlags(t, server.Command)
	for _, v := range server.Volumes {
		if v.Type == "bind" {
			if _, err := os.Stat(v.Source); err != nil {
				t.Error(err)
			}
		}
	}
	if token := server.Environment["MILLRACE_PUBLISH_TOKEN"]; token == nil || *token != "b" {
		t.Errorf("the token is %v", token)
	}
	options.Environment = nil
	if _, err := options.LoadProject(t.Context()); err == nil {
		t.Error("it starts without a token")
	}
}

func TestComposeOfACluster(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{manifests + "compose-cluster.yaml"},
		cli.WithEnv([]string{"MILLRACE_CLUSTER_TOKEN=a", "MILLRACE_PUBLISH_TOKEN=b"}),
		cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node1", "node2", "node3"} {
		node, err := project.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		knownFlags(t, node.Command)
		if !slices.Contains(node.Command, "http://"+name+":8080") {
			t.Errorf("%s advertises another address: %q", name, node.Command)
		}
		if token := node.Environment["MILLRACE_CLUSTER_TOKEN"]; token == nil || *token != "a" {
			t.Errorf("%s has the token %v", name, token)
		}
		if node.Build == nil || node.Build.Dockerfile != "deploy/Containerfile" {
			t.Errorf("%s is built by %+v", name, node.Build)
		}
	}
	options.Environment = nil
	if _, err := options.LoadProject(t.Context()); err == nil {
		t.Error("it starts without tokens")
	}
}

// The manifests have only fields that Kubernetes knows, and their references are valid.
func TestKubernetes(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	f, err := os.Open(manifests + "kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	services := make(map[string]*corev1.Service)
	pods := make(map[string]*corev1.PodTemplateSpec) // by their label app
	var nodes *appsv1.StatefulSet
	var scaled []string
	for documents := yaml.NewDocumentDecoder(f); ; {
		text := make([]byte, 64<<10)
		n, err := documents.Read(text)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		object, kind, err := decoder.Decode(text[:n], nil, nil)
		if err != nil {
			t.Fatalf("the manifest is not accepted: %v in\n%s", err, text[:n])
		}
		switch o := object.(type) {
		case *corev1.Service:
			services[o.Name] = o
		case *appsv1.StatefulSet:
			nodes = o
			pods[o.Spec.Selector.MatchLabels["app"]] = &o.Spec.Template
		case *appsv1.Deployment:
			pods[o.Spec.Selector.MatchLabels["app"]] = &o.Spec.Template
		case *autoscalingv2.HorizontalPodAutoscaler:
			scaled = append(scaled, o.Spec.ScaleTargetRef.Kind+" "+o.Spec.ScaleTargetRef.Name)
		case *policyv1.PodDisruptionBudget:
		default:
			t.Errorf("%v is not expected", kind)
		}
	}
	for app, pod := range pods {
		if pod.Labels["app"] != app {
			t.Errorf("%s selects pods with %v", app, pod.Labels)
		}
	}
	for name, s := range services {
		pod := pods[s.Spec.Selector["app"]]
		if pod == nil {
			t.Errorf("the service %s selects %v", name, s.Spec.Selector)
			continue
		}
		for _, port := range s.Spec.Ports {
			if !slices.ContainsFunc(pod.Spec.Containers[0].Ports,
				func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal }) {
				t.Errorf("the service %s has the port %v", name, port.TargetPort)
			}
		}
	}
	if nodes == nil || services[nodes.Spec.ServiceName] == nil ||
		services[nodes.Spec.ServiceName].Spec.ClusterIP != "None" {
		t.Fatalf("the nodes have no names of their own")
	}
	if want := "StatefulSet " + nodes.Name; !slices.Equal(scaled, []string{want}) {
		t.Errorf("%v is scaled, want %s", scaled, want)
	}
	args := nodes.Spec.Template.Spec.Containers[0].Args
	knownFlags(t, args)
	all := strings.Join(args, "\n")
	if !strings.Contains(all, "http://$(POD_NAME)."+nodes.Spec.ServiceName+":8080") {
		t.Errorf("the nodes advertise another address: %q", args)
	}
	if m := regexp.MustCompile(`redis://([^:]+):`).FindStringSubmatch(all); m == nil ||
		services[m[1]] == nil {
		t.Errorf("there is no Redis: %q", args)
	}
}
