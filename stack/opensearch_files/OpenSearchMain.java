import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.codelibs.opensearch.runner.OpenSearchRunner;

/**
 * One OpenSearch node, of the jars that are in Maven Central: OpenSearch's own launcher is in none of them.
 *
 * <p>Arguments: folder, HTTP port, transport port, and for a node with the security plugin a file of its settings. It says "opensearch is up" when it has started.
 */
public final class OpenSearchMain {
    public static void main(String[] args) throws Exception {
        Properties secured = new Properties();
        OpenSearchRunner.Configs configs =
                OpenSearchRunner.newConfigs().basePath(args[0]).numOfNode(1).clusterName("cdc");
        if (args.length > 3) {
            secured.load(Files.newBufferedReader(Path.of(args[3])));
            configs.pluginTypes("org.opensearch.security.OpenSearchSecurityPlugin");
        }
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.setMaxHttpPort(-1);
        runner.onBuild(
                        (number, settings) -> {
                            settings.put("http.port", args[1]);
                            settings.put("transport.port", args[2]);
                            settings.put("network.host", "127.0.0.1");
                            settings.put("discovery.type", "single-node");
                            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
                            secured.forEach((key, value) -> settings.put((String) key, (String) value));
                        })
                .build(configs);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime()
                .addShutdownHook(
                        new Thread(
                                () -> {
                                    try {
                                        runner.close();
                                    } catch (Exception error) {
                                        error.printStackTrace();
                                    }
                                    ended.countDown();
                                }));
        System.out.println("opensearch is up");
        ended.await();
    }
}
