package node

import ("testing";"os/exec";"os")

func TestFirst(t *testing.T) {
	c := exec.Command("bash", "-c", os.Getenv("NODE_CMD")); c.Env = append(os.Environ(), "KUBECONFIG="+machine.Kubeconfig(), "PATH="+os.Getenv("PATH")+":/root/.cache/scaledjob-operator/kubectl-v1.36.3-linux-amd64")
	out, err := c.CombinedOutput()
	t.Log(string(out), err)
}
