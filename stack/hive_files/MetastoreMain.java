import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore.HMSHandler;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's metastore on one address, which its own main class does not offer: arguments are host, port and settings. */
public final class MetastoreMain {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (InputStream in = Files.newInputStream(Path.of(args[2]))) {
            settings.load(in);
        }
        Configuration conf = MetastoreConf.newMetastoreConf();
        settings.stringPropertyNames().forEach(name -> conf.set(name, settings.getProperty(name)));
        IHMSHandler handler = RetryingHMSHandler.getProxy(conf, new HMSHandler("metastore", conf, false), true);
        TxnDbUtil.prepDb(conf); // the tables of its locks
        TServerSocket socket = new TServerSocket(
                new InetSocketAddress(InetAddress.getByName(args[0]), Integer.parseInt(args[1])));
        new TThreadPoolServer(new TThreadPoolServer.Args(socket).processor(new TSetIpAddressProcessor<>(handler))).serve();
    }
}
