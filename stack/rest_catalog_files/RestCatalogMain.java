import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's REST catalog as its own tests run it: arguments are host, port and the file of its settings. */
public final class RestCatalogMain {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (InputStream in = Files.newInputStream(Path.of(args[2]))) {
            settings.load(in);
        }
        Map<String, String> properties = new HashMap<>();
        settings.stringPropertyNames().forEach(name -> properties.put(name, settings.getProperty(name)));
        Catalog catalog = CatalogUtil.buildIcebergCatalog("rest_backend", properties, new Configuration());
        Server server = new Server(new InetSocketAddress(args[0], Integer.parseInt(args[1])));
        ServletContextHandler handler = new ServletContextHandler();
        handler.setContextPath("/");
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        server.setHandler(handler);
        server.start();
        server.join();
    }
}
